/**
 * What the person chose on this browser: whether to share at all, and how exactly. Remembered across visits; a change
 * in one tab is a change in all of them.
 *
 * @typedef {import("./protocol.js").Sharing} Sharing
 * @typedef {import("./protocol.js").Precision} Precision
 * @typedef {{getItem(key: string): string | null, setItem(key: string, value: string): void}} KeyValue
 */

const SHARING_KEY = "hereabouts.sharing";
const PRECISION_KEY = "hereabouts.precision";

/** Fires `change`. */
export class Choices extends EventTarget {
  #storage;
  /** @type {Sharing} */
  #sharing = "on";
  /** @type {Precision} */
  #precision = "precise";

  /** @param {KeyValue | null} storage  null: remembered for this page only */
  constructor(storage) {
    super();
    this.#storage = storage;
    this.#read();
  }

  /** Choices kept in the browser's localStorage, following changes made in other tabs. */
  static ofThisBrowser() {
    const choices = new Choices(openStorage("localStorage"));
    window.addEventListener("storage", (event) => {
      if (event.key !== null && event.key !== SHARING_KEY && event.key !== PRECISION_KEY) return;
      choices.#read();
      choices.dispatchEvent(new Event("change"));
    });
    return choices;
  }

  get sharing() {
    return this.#sharing;
  }

  set sharing(value) {
    if (value === this.#sharing) return;
    this.#sharing = value;
    this.#write(SHARING_KEY, value);
  }

  get precision() {
    return this.#precision;
  }

  set precision(value) {
    if (value === this.#precision) return;
    this.#precision = value;
    this.#write(PRECISION_KEY, value);
  }

  #read() {
    this.#sharing = this.#storage?.getItem(SHARING_KEY) === "off" ? "off" : "on";
    this.#precision = this.#storage?.getItem(PRECISION_KEY) === "approximate" ? "approximate" : "precise";
  }

  /**
   * @param {string} key
   * @param {string} value
   */
  #write(key, value) {
    try {
      this.#storage?.setItem(key, value);
    } catch {
      // A full or blocked storage: the choice holds for this page.
    }
    this.dispatchEvent(new Event("change"));
  }
}

/**
 * A storage of this page, or null where the browser blocks it (its mere mention then throws).
 *
 * @param {"localStorage" | "sessionStorage"} name
 * @returns {Storage | null}
 */
export function openStorage(name) {
  try {
    return window[name];
  } catch {
    return null;
  }
}
