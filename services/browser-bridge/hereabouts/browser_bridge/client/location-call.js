/**
 * One call of `location_get`: its clock, what it has told the bridge, its phases, and its one answer. It does not know
 * how positions are found; `location.js` decides that.
 *
 * @typedef {import("./answers.js").LocationAnswer} LocationAnswer
 * @typedef {import("./browser.js").Browser} Browser
 * @typedef {import("./protocol.js").Permission} Permission
 * @typedef {import("./protocol.js").ProgressState} ProgressState
 * @typedef {import("./tools.js").Ask} Ask
 * @typedef {import("./tools.js").Timings} Timings
 * @typedef {import("./wish.js").Wish} Wish
 */
import { Budget } from "./budget.js";

/**
 * A fix that the browser has at hand comes sooner than this and needs no report; a brain that waits a second for a sign
 * of life still has it in time.
 */
const ACQUIRING_REPORT_MS = 250;

/** The bridge takes 16 phases: a tab that is shown and hidden without end stays in its last but one. */
const MAX_PHASES = 16;

const PHASES = /** @type {const} */ ({
  prompt_open: "prompt_open",
  acquiring: "acquiring",
  tab_hidden: "waiting",
});

export class LocationCall {
  #browser;
  #prompt;
  #budget;
  #due;
  /** @type {(answer: LocationAnswer) => void} */
  #resolve = () => {};
  /** @type {keyof typeof PHASES | null} */
  #shown = null;
  #reported = false;
  /** @type {Timings["phases"]} */
  #phases = [];
  #phase = "permission_query";
  #phaseStart = 0;
  #cancelTimer = () => {};
  #cancelReport = () => {};

  /** True once answered. */
  settled = false;

  /** The permission as last heard; a hint, since the callback is the truth. @type {Permission} */
  permission = "unknown";

  /** A fix that meets the ask's age but not its accuracy: better than none when time is up. @type {import("./answers.js").Fix | null} */
  fallback = null;

  /**
   * @param {Browser} browser
   * @param {Ask} ask
   * @param {Wish} wish
   * @param {{capMs: number, prompt: string, due: (call: LocationCall) => void}} options
   */
  constructor(browser, ask, wish, { capMs, prompt, due }) {
    this.#browser = browser;
    this.#prompt = prompt;
    this.#due = due;
    this.ask = ask;
    this.wish = wish;
    this.startedAt = browser.now();
    this.#budget = new Budget(Math.min(capMs, ask.budgetMs), ask.waitMs, this.startedAt);
    /** @type {Promise<LocationAnswer>} */
    this.answer = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.#arm();
  }

  /**
   * Take note of what holds the answer up, and tell the bridge when that changed. With `wait: "user"` the clock stands
   * still while it is the person's turn and the page is before their eyes.
   *
   * @param {boolean} hidden
   */
  show(hidden) {
    const state = hidden ? "tab_hidden" : this.permission === "granted" ? "acquiring" : "prompt_open";
    if (this.settled || state === this.#shown) return;
    const now = this.#browser.now();
    this.#shown = state;
    this.#enter(PHASES[state], now);
    this.#budget.standStill(this.ask.wait === "user" && state === "prompt_open", now);
    this.#arm();
    this.#cancelReport();
    if (state === "acquiring" && !this.#reported) {
      this.#cancelReport = this.#browser.after(ACQUIRING_REPORT_MS, () => this.#report(state));
      return;
    }
    if (state === "prompt_open" && this.ask.wait === "user") this.#report("waiting_for_user", this.#prompt);
    this.#report(state);
  }

  /**
   * Answer. Only the first answer counts.
   *
   * @param {LocationAnswer} answer
   */
  settle(answer) {
    if (this.settled) return;
    this.settled = true;
    this.#cancelTimer();
    this.#cancelReport();
    const now = this.#browser.now();
    this.#enter("answered", now);
    this.#enter("", now);
    this.ask.measured({ clockMs: this.#browser.wallNow(), phases: this.#phases });
    this.#resolve(answer);
  }

  #arm() {
    this.#cancelTimer();
    const leftMs = Math.max(0, this.#budget.endsAt - this.#browser.now());
    this.#cancelTimer = this.#browser.after(leftMs, () => {
      if (!this.settled) this.#due(this);
    });
  }

  /**
   * @param {ProgressState} state
   * @param {string} [prompt]
   */
  #report(state, prompt) {
    this.#reported = true;
    this.ask.progress(state, prompt);
  }

  /**
   * @param {string} name
   * @param {number} now
   */
  #enter(name, now) {
    if (name !== "answered" && name !== "" && this.#phases.length >= MAX_PHASES - 2) return;
    const at = Math.round((now - this.startedAt) * 10) / 10;
    this.#phases.push({ name: this.#phase, startMs: this.#phaseStart, endMs: at });
    this.#phase = name;
    this.#phaseStart = at;
  }
}
