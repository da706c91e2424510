/**
 * `location_get` in the page: decides every case of the wire document's table. All that is the browser's is handed in
 * (`browser.js`), so the decisions run in a test without one.
 *
 * Rules that shape it: one browser request at a time, joined by later calls; no browser timeout, since it would run
 * while the person reads the prompt; the permission is asked anew each time and is only a hint; after PENDING the
 * browser's request stays open, and its outcome is kept for the next call.
 *
 * @typedef {import("./answers.js").Fix} Fix
 * @typedef {import("./answers.js").LocationAnswer} LocationAnswer
 * @typedef {import("./browser.js").Browser} Browser
 * @typedef {import("./wish.js").Wish} Wish
 * @typedef {import("./protocol.js").Permission} Permission
 * @typedef {import("./tools.js").Ask} Ask
 * @typedef {import("./tools.js").Tool} Tool
 *
 * @typedef {{fix: Fix} | {answer: import("./answers.js").Declined | import("./answers.js").Unavailable}} Outcome
 *
 * @typedef {object} PositionRequest  one `getCurrentPosition` that has not called back
 * @property {Wish} wish
 * @property {Permission} openedIn
 * @property {number | null} expiredAt  when a call first gave up on it while the position was being found
 * @property {Set<import("./location-call.js").LocationCall>} calls
 * @property {boolean} concluded  it has called back, or nothing more is expected of it
 * @property {((status: string) => void)[]} late  calls that were answered PENDING meanwhile
 */
import { ageMs, declined, granted, pending, readFix, unavailable } from "./answers.js";
import { LocationCall } from "./location-call.js";
import { LOCATION_GET, isExactEnough, readWish } from "./wish.js";

/** An agent's loop must not stand still for longer than this. */
const CAP_MS = 5_000;

/**
 * How long a position that came after PENDING answers the next call of an agent that did not say how old it may be: the
 * "short wait" it was told to make. Later, a new position is as quick, since the permission is there.
 */
const LATE_OUTCOME_MS = 15_000;

const CODE_DENIED = 1;
const CODE_TIMEOUT = 3;

/** @implements {Tool} */
export class LocationTool {
  #browser;
  #choices;
  #capMs;
  #prompt;
  #stopWatching;
  #chosen = () => this.#onChoice();

  /** Calls without an answer. @type {Set<LocationCall>} */
  #calls = new Set();

  /** @type {PositionRequest | null} */
  #request = null;

  /** What came when no call was waiting any more, for the next one. @type {{outcome: Outcome, at: number, wish: Wish} | null} */
  #kept = null;

  /**
   * @param {object} parts
   * @param {Browser} parts.browser
   * @param {import("./choices.js").Choices} parts.choices
   * @param {string} [parts.prompt]  what a page shows while it waits for the person
   * @param {number} [parts.capMs]   the longest that a call takes, not counting the person's time with `wait: "user"`
   */
  constructor({ browser, choices, prompt = "Allow location access to continue", capMs = CAP_MS }) {
    this.#browser = browser;
    this.#choices = choices;
    this.#prompt = prompt;
    this.#capMs = capMs;
    this.spec = LOCATION_GET;
    this.#stopWatching = browser.watch((change, permission) => {
      if (change === "visibility") this.#onVisibility();
      if (change === "permission" && permission) this.#onPermission(permission);
    });
    choices.addEventListener("change", this.#chosen);
  }

  /** Stop listening to the page. Open calls keep their own timers and end by them. */
  close() {
    this.#stopWatching();
    this.#choices.removeEventListener("change", this.#chosen);
  }

  /**
   * Answer one ask, within its budget, whatever the browser does.
   *
   * @param {Record<string, any>} params
   * @param {Ask} ask
   */
  run(params, ask) {
    const wish = readWish(params, this.#choices.precision);
    const call = new LocationCall(this.#browser, ask, wish, {
      capMs: this.#capMs,
      prompt: this.#prompt,
      due: (late) => this.#onDue(late),
    });
    this.#calls.add(call);
    void call.answer.then(() => {
      this.#calls.delete(call);
      this.#request?.calls.delete(call);
    });
    ask.signal.addEventListener("abort", () => call.settle(unavailable("cancelled")));
    void this.#decide(call);
    return call.answer;
  }

  /**
   * The result as it leaves: a position that was held back by a lost socket has aged.
   *
   * @param {any} result
   */
  atSending(result) {
    if (result?.status !== "GRANTED") return result;
    return { ...result, ageMs: ageMs(result.timestamp, this.#browser.wallNow()) };
  }

  /** @param {LocationCall} call */
  async #decide(call) {
    if (!this.#browser.isSecure()) return call.settle(unavailable("insecure_context"));
    if (!this.#browser.hasGeolocation()) return call.settle(unavailable("unsupported"));
    if (this.#browser.policyForbids()) return call.settle(unavailable("permissions_policy"));
    const permission = await this.#browser.queryPermission();
    if (call.settled) return;
    call.permission = permission;
    if (permission === "denied") return call.settle(declined("denied"));
    if (this.#choices.sharing === "off") return call.settle(declined("sharing_off"));
    const kept = this.#takeKept(call);
    if (kept) return call.settle(kept);
    if (permission !== "granted" && !call.ask.mayPrompt) return call.settle(unavailable("would_prompt"));
    this.#join(call);
  }

  /** @param {LocationCall} call */
  #join(call) {
    // The bridge hears that a prompt is up before the browser is asked: it may be the last thing this page can say.
    call.show(this.#browser.isHidden());
    if (call.settled) return;
    if (this.#request) {
      this.#request.calls.add(call);
    } else {
      this.#open(call);
    }
  }

  /** @param {LocationCall} call */
  #open(call) {
    /** @type {PositionRequest} */
    const request = {
      wish: call.wish,
      openedIn: call.permission,
      expiredAt: null,
      calls: new Set([call]),
      concluded: false,
      late: [],
    };
    this.#request = request;
    this.#browser.getPosition(
      { enableHighAccuracy: call.wish.highAccuracy, maximumAge: call.wish.maxAgeMs ?? 0 },
      (position) => {
        const fix = readFix(position);
        this.#conclude(request, fix ? { fix } : { answer: unavailable("position_unavailable") });
      },
      (code) => void this.#onError(request, code),
    );
  }

  /**
   * @param {PositionRequest} request
   * @param {number} code
   */
  async #onError(request, code) {
    if (code !== CODE_DENIED) {
      const reason = code === CODE_TIMEOUT ? "timeout" : "position_unavailable";
      this.#conclude(request, { answer: unavailable(reason) });
      return;
    }
    // Code 1 is said for a block, for a prompt that was closed, and for a policy: only the state tells them apart.
    const permission = await this.#browser.queryPermission();
    this.#conclude(request, { answer: refusalIn(permission) });
  }

  /**
   * The browser has called back.
   *
   * @param {PositionRequest} request
   * @param {Outcome} outcome
   */
  #conclude(request, outcome) {
    if (request.concluded) return;
    request.concluded = true;
    if (this.#request === request) this.#request = null;
    const calls = [...request.calls].filter((call) => !call.settled);
    request.calls.clear();
    const off = this.#choices.sharing === "off";
    /** @type {LocationCall[]} */
    const unmet = [];
    for (const call of calls) {
      if ("answer" in outcome) {
        call.settle(call.fallback ? this.#tell(call.fallback) : outcome.answer);
      } else if (off || this.#meets(outcome.fix, request.wish, call)) {
        call.settle(off ? declined("sharing_off") : this.#tell(outcome.fix));
      } else {
        unmet.push(call);
      }
    }
    if (calls.length === 0 && !off) this.#kept = { outcome, at: this.#browser.now(), wish: request.wish };
    const status = off ? "DECLINED" : "fix" in outcome ? "GRANTED" : outcome.answer.status;
    for (const tell of request.late) tell(status);
    for (const call of unmet) {
      call.permission = "granted";
      this.#join(call);
    }
  }

  /**
   * Whether a fix that another call's request found serves this call too. A fix of the right age that is only not
   * exact enough is put by for the end of the call.
   *
   * @param {Fix} fix
   * @param {Wish} requested
   * @param {LocationCall} call
   */
  #meets(fix, requested, call) {
    const maxAgeMs = call.wish.maxAgeMs ?? 0;
    const young = (requested.maxAgeMs ?? 0) <= maxAgeMs || ageMs(fix.timestamp, this.#browser.wallNow()) <= maxAgeMs;
    if (!young) return false;
    if (isExactEnough(fix, requested, call.wish)) return true;
    call.fallback = fix;
    return false;
  }

  /**
   * What was kept after an earlier PENDING, if it answers this call.
   *
   * @param {LocationCall} call
   * @returns {LocationAnswer | null}
   */
  #takeKept(call) {
    if (!this.#kept) return null;
    const { outcome, at, wish } = this.#kept;
    const elapsedMs = this.#browser.now() - at;
    if ("answer" in outcome && outcome.answer.status === "DECLINED") {
      // A refusal answers the next call that could ask the person again, and none once the permission is there.
      if (call.permission !== "granted" && !call.ask.mayPrompt) return null;
      this.#kept = null;
      return call.permission === "granted" ? null : outcome.answer;
    }
    this.#kept = null;
    if ("answer" in outcome) return elapsedMs <= LATE_OUTCOME_MS ? outcome.answer : null;
    // Without a wish the time since the callback counts: the browser was asked for a new position then.
    const fixAgeMs = call.wish.maxAgeMs === undefined ? 0 : ageMs(outcome.fix.timestamp, this.#browser.wallNow());
    if (Math.max(elapsedMs, fixAgeMs) > (call.wish.maxAgeMs ?? LATE_OUTCOME_MS)) return null;
    if (isExactEnough(outcome.fix, wish, call.wish)) return this.#tell(outcome.fix);
    call.fallback = outcome.fix;
    return null;
  }

  /**
   * The call's own timer came first.
   *
   * @param {LocationCall} call
   */
  #onDue(call) {
    if (call.fallback) return call.settle(this.#tell(call.fallback));
    const request = this.#request?.calls.has(call) ? this.#request : null;
    const answer = this.#dueAnswer(call, request);
    if (answer.status === "PENDING") request?.late.push(call.ask.late);
    return call.settle(answer);
  }

  /**
   * @param {LocationCall} call
   * @param {PositionRequest | null} request
   */
  #dueAnswer(call, request) {
    if (this.#browser.isHidden()) return pending("tab_hidden");
    if (!request) return pending("acquiring");
    if (call.permission !== "granted") return pending("prompt_open");
    if (request.expiredAt === null || call.startedAt < request.expiredAt) {
      request.expiredAt ??= this.#browser.now();
      return pending("acquiring");
    }
    // Allowing it from the browser's settings leaves a request that was opened with a prompt without a callback
    // (Chromium): give it up, so that the next call asks afresh.
    if (request.openedIn !== "granted") this.#request = null;
    return unavailable("timeout");
  }

  #onVisibility() {
    for (const call of this.#joined()) call.show(this.#browser.isHidden());
  }

  /** @param {Permission} permission */
  #onPermission(permission) {
    if (permission === "denied") {
      // The callback may never come when the person blocks it in the browser's settings.
      if (this.#request) this.#conclude(this.#request, { answer: declined("denied") });
      this.#kept = null;
      return;
    }
    for (const call of this.#joined()) {
      call.permission = permission;
      call.show(this.#browser.isHidden());
    }
  }

  #onChoice() {
    if (this.#choices.sharing === "on") return;
    this.#kept = null;
    for (const call of this.#calls) call.settle(declined("sharing_off"));
  }

  /** Calls that wait for the open request: a copy, since telling them may end them. */
  #joined() {
    return [...(this.#request?.calls ?? [])];
  }

  /** @param {Fix} fix */
  #tell(fix) {
    return granted(fix, this.#choices.precision, this.#browser.wallNow());
  }
}

/**
 * @param {Permission} permission  as asked after code 1
 */
function refusalIn(permission) {
  if (permission === "prompt") return declined("dismissed");
  // A grant and a refusal at once: a frame or a header forbids it, where the browser cannot be asked about that.
  if (permission === "granted") return unavailable("permissions_policy");
  return declined("denied");
}
