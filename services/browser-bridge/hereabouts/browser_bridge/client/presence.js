/**
 * What the bridge may know of the page, to choose whom to ask: hints, sent on every change and never trusted as truth.
 *
 * @typedef {import("./browser.js").Browser} Browser
 * @typedef {import("./choices.js").Choices} Choices
 */

export class Presence {
  #browser;
  #choices;
  #notify;
  #sent = "";
  /** Told apart from earlier openings, since the permission is asked in between. */
  #opening = 0;
  #isOpen = false;
  #stopWatching = () => {};
  #changed = () => void this.#send();

  /**
   * @param {Browser} browser
   * @param {Choices} choices
   * @param {(type: string, data: object) => void} notify
   */
  constructor(browser, choices, notify) {
    this.#browser = browser;
    this.#choices = choices;
    this.#notify = notify;
  }

  /** The state of the page, the permission asked anew. */
  async state() {
    const permission = await this.#browser.queryPermission();
    return {
      visibility: this.#browser.isHidden() ? "hidden" : "visible",
      focused: this.#browser.hasFocus(),
      permission,
      sharing: this.#choices.sharing,
      precision: this.#choices.precision,
    };
  }

  /** Tell the state now and on every change, until `close`. */
  open() {
    this.close();
    this.#isOpen = true;
    this.#stopWatching = this.#browser.watch(this.#changed);
    this.#choices.addEventListener("change", this.#changed);
    void this.#send();
  }

  close() {
    this.#stopWatching();
    this.#stopWatching = () => {};
    this.#choices.removeEventListener("change", this.#changed);
    this.#sent = "";
    this.#isOpen = false;
    this.#opening += 1;
  }

  async #send() {
    const opening = this.#opening;
    const state = await this.state();
    const text = JSON.stringify(state);
    if (!this.#isOpen || opening !== this.#opening || text === this.#sent) return;
    this.#sent = text;
    this.#notify("client-state", state);
  }
}
