/** A browser that does what a test tells it to, on a clock that the test turns. */

import { Choices } from "../../services/browser-bridge/hereabouts/browser_bridge/client/choices.js";
import { LocationTool } from "../../services/browser-bridge/hereabouts/browser_bridge/client/location.js";

export const EPOCH_MS = 1_796_000_000_000;

/** Let promises that are already settled run their continuations. */
export const settle = () => new Promise((resolve) => setImmediate(resolve));

export class Clock {
  #now = 0;
  #timers = new Set();

  now = () => this.#now;
  wallNow = () => EPOCH_MS + this.#now;

  after = (ms, due) => {
    const timer = { at: this.#now + ms, due };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  };

  get pending() {
    return this.#timers.size;
  }

  /** Turn the clock, running what falls due in order, with the continuations in between. */
  async advance(ms) {
    const end = this.#now + ms;
    await settle();
    for (;;) {
      const next = [...this.#timers].filter((t) => t.at <= end).sort((a, b) => a.at - b.at)[0];
      if (!next) break;
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.at);
      next.due();
      await settle();
    }
    this.#now = end;
  }
}

export class ScriptedBrowser {
  secure = true;
  geolocation = true;
  forbidden = false;
  hidden = false;
  focused = true;
  permission = "granted";
  queries = 0;
  /** Position requests in order: {options, found, failed}. */
  requests = [];
  #listeners = new Set();

  constructor(clock) {
    this.now = clock.now;
    this.wallNow = clock.wallNow;
    this.after = clock.after;
  }

  isSecure = () => this.secure;
  hasGeolocation = () => this.geolocation;
  policyForbids = () => this.forbidden;
  isHidden = () => this.hidden;
  hasFocus = () => this.focused;
  queryPermission = async () => {
    this.queries += 1;
    return this.permission;
  };
  getPosition = (options, found, failed) => {
    this.requests.push({ options, found, failed });
  };
  watch = (listener) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  get listeners() {
    return this.#listeners.size;
  }

  setHidden(hidden) {
    this.hidden = hidden;
    for (const listener of this.#listeners) listener("visibility");
  }

  /** The person changes it, and the browser says so. */
  setPermission(permission) {
    this.permission = permission;
    for (const listener of this.#listeners) listener("permission", permission);
  }
}

export const SOMEWHERE = { latitude: 48.137154, longitude: 11.576124 };

export function position(clock, { accuracy = 20, agedMs = 0, ...rest } = {}) {
  return { coords: { ...SOMEWHERE, accuracy, altitude: null, heading: NaN, ...rest }, timestamp: clock.wallNow() - agedMs };
}

/** A location tool in a scripted browser, and a way to ask it. */
export function scene(permission = "granted") {
  const clock = new Clock();
  const browser = new ScriptedBrowser(clock);
  browser.permission = permission;
  const choices = new Choices(null);
  const tool = new LocationTool({ browser, choices });
  let asked = 0;

  /** Ask; the returned object collects all that the tool says. */
  function ask({ params = {}, ...given } = {}) {
    const said = { progress: [], late: [], answer: undefined, timings: undefined, asked: asked++ };
    const abort = new AbortController();
    said.cancel = () => abort.abort();
    said.done = tool
      .run(params, {
        correlationId: `call-${said.asked}`,
        budgetMs: 5_000,
        mayPrompt: true,
        wait: "no",
        waitMs: 0,
        signal: abort.signal,
        progress: (state, prompt) => said.progress.push(prompt ? { state, prompt } : state),
        late: (status) => said.late.push(status),
        measured: (timings) => (said.timings = timings),
        ...given,
      })
      .then((answer) => (said.answer = answer));
    return said;
  }

  return { clock, browser, choices, tool, ask };
}
