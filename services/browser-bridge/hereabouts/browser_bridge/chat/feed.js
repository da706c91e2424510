/**
 * The list of what was asked and answered, newest last. One entry is one call; what a stranger wrote (the purpose) is
 * set as text, never as markup.
 *
 * @typedef {import("../client/tools.js").CallEvent} CallEvent
 * @typedef {import("./words.js").Words} Words
 */
import { answerWords, cancelledWords, lateText, progressWords } from "./words.js";

/** A long conversation must not fill a phone's memory. */
const MAX_ENTRIES = 100;

/** Within this of the end, a reader follows along; further up they are reading, and are left in peace. */
const FOLLOW_PX = 120;

export class Feed {
  #list;
  #empty;
  /** @type {Map<string, {entry: HTMLElement, reply: HTMLElement, waiting: boolean}>} */
  #calls = new Map();

  /**
   * @param {HTMLElement} list
   * @param {HTMLElement} empty  shown while there is nothing
   */
  constructor(list, empty) {
    this.#list = list;
    this.#empty = empty;
  }

  /** Whether a call waits for the person or their device. */
  get isWaiting() {
    return [...this.#calls.values()].some((call) => call.waiting);
  }

  /** @param {CallEvent} event */
  show(event) {
    const follows = this.#list.scrollHeight - this.#list.scrollTop - this.#list.clientHeight < FOLLOW_PX;
    const call = this.#calls.get(event.correlationId) ?? this.#add(event);
    switch (event.step) {
      case "asked":
        this.#reply(call, progressWords(undefined), true);
        break;
      case "progress":
        this.#reply(call, progressWords(event.state), true);
        break;
      case "answered":
        this.#reply(call, answerWords(event.result, event.error), false);
        break;
      case "cancelled":
        this.#reply(call, cancelledWords(), false);
        break;
      case "late":
        call.reply.append(element("p", "late", lateText(event.status)));
        break;
    }
    if (follows) this.#list.scrollTop = this.#list.scrollHeight;
  }

  /** @param {CallEvent} event */
  #add({ correlationId, purpose, tool }) {
    const asks = tool === "location_get" ? "Your agent asks where you are" : `Your agent uses “${tool}” on this page`;
    const now = new Date();
    const time = element("time", "time", now.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }));
    time.setAttribute("datetime", now.toISOString());

    const question = element("div", "bubble question");
    question.append(element("p", "title", asks));
    question.append(purpose ? element("p", "purpose", purpose) : element("p", "text", "It did not say what for."));
    question.append(time);
    const asked = element("div", "said");
    asked.append(icon("agent", "avatar"), question);

    const reply = element("div", "bubble reply");
    const entry = element("li", "call");
    entry.append(asked, reply);
    this.#list.append(entry);
    this.#list.hidden = false;
    this.#empty.hidden = true;

    const call = { entry, reply, waiting: true };
    this.#calls.set(correlationId, call);
    const [oldest] = this.#calls;
    if (this.#calls.size > MAX_ENTRIES && oldest) {
      oldest[1].entry.remove();
      this.#calls.delete(oldest[0]);
    }
    return call;
  }

  /**
   * @param {{reply: HTMLElement, waiting: boolean}} call
   * @param {Words} words
   * @param {boolean} waiting
   */
  #reply(call, { tone, title, text }, waiting) {
    call.waiting = waiting;
    call.reply.dataset["tone"] = tone;
    const heading = element("p", "title");
    heading.append(waiting ? element("span", "pulse") : icon(tone, "tone"), element("span", "", title));
    call.reply.replaceChildren(heading, element("p", "text", text));
  }
}

/**
 * @param {string} tag
 * @param {string} className
 * @param {string} [text]
 */
function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {string} name
 * @param {string} className
 */
function icon(name, className) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", className);
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}
