/**
 * The words that page and bridge share: frames, limits, close codes. No socket, no clock.
 *
 * @typedef {"visible" | "hidden"} Visibility
 * @typedef {"granted" | "denied" | "prompt" | "unknown"} Permission  "unknown" where there is no Permissions API
 * @typedef {"on" | "off"} Sharing
 * @typedef {"precise" | "approximate"} Precision
 * @typedef {"prompt_open" | "acquiring" | "tab_hidden" | "waiting_for_user"} ProgressState
 *
 * @typedef {object} Frame  one text message in either direction
 * @property {string} type
 * @property {string} [id]       set on a request
 * @property {string} [replyTo]  set on its reply
 * @property {any} [data]
 *
 * @typedef {object} ToolSpec  what an agent reads of a tool
 * @property {string} name  1 to 128 of `A-Za-z0-9_.-`
 * @property {string} description
 * @property {object} paramsSchema  JSON Schema
 * @property {object} [outputSchema]
 *
 * @typedef {object} Invoke  data of `client-tool-invoke`
 * @property {string} correlationId
 * @property {string} name
 * @property {Record<string, any>} params
 * @property {number} budgetMs  what is left for this client
 * @property {boolean} mayPrompt  false: answer only from a grant that exists already
 * @property {"no" | "user"} wait  "user": the budget stands still while the person decides
 * @property {number} waitMs  how long it may stand still in all
 * @property {string} [purpose]
 * @property {string} [traceparent]
 */

/** The bridge closes a socket with 1009 beyond 64 KiB; a result leaves room for its envelope and timings. */
export const MAX_RESULT_BYTES = 48 * 1024;

/** What an invoke that names no budget gets: as long as `location_get` has. */
const DEFAULT_BUDGET_MS = 5_000;

/** How long an answer is remembered for a duplicate ask: the bus keeps the sealed answer as long. */
export const RESULT_MEMORY_MS = 60_000;

/** Close codes that the bridge sends, and what they mean to a page (RFC 6455, section 7.4; 4000 up are our own). */
export const Close = Object.freeze({
  NORMAL: 1000,
  POLICY: 1008,
  TOO_BIG: 1009,
  RESTART: 1012,
  TRY_LATER: 1013,
  NO_HELLO: 4001,
  TOKEN_REFUSED: 4003,
  /** Ours: the bridge does not answer as it should. A page may only send 1000 and 3000 to 4999. */
  GIVEN_UP: 4900,
});

/** An error that the bridge answered a request with. */
export class BridgeError extends Error {
  /**
   * @param {string | number} code
   * @param {string} message
   */
  constructor(code, message) {
    super(message);
    this.name = "BridgeError";
    this.code = code;
  }

  /** Whether it may be gone at the next try. */
  get isPassing() {
    return Number(this.code) >= 500;
  }
}

/**
 * A frame from its text, or null when it is none: a page is not broken by what it does not understand.
 *
 * @param {unknown} text
 * @returns {Frame | null}
 */
export function parseFrame(text) {
  if (typeof text !== "string") return null;
  try {
    const frame = JSON.parse(text);
    return frame !== null && typeof frame === "object" && typeof frame.type === "string" ? frame : null;
  } catch {
    return null;
  }
}

/**
 * The size of a text on the wire, in bytes of UTF-8.
 *
 * @param {string} text
 */
export function byteLength(text) {
  return new TextEncoder().encode(text).length;
}

/**
 * An invoke from a frame's data, with safe defaults; null when it cannot be answered at all.
 *
 * @param {any} data
 * @returns {Invoke | null}
 */
export function parseInvoke(data) {
  if (typeof data?.correlationId !== "string" || typeof data.name !== "string") return null;
  return {
    correlationId: data.correlationId,
    name: data.name,
    params: data.params !== null && typeof data.params === "object" ? data.params : {},
    budgetMs: milliseconds(data.budgetMs ?? DEFAULT_BUDGET_MS),
    mayPrompt: data.mayPrompt === true,
    wait: data.wait === "user" ? "user" : "no",
    waitMs: milliseconds(data.waitMs),
    ...(typeof data.purpose === "string" && data.purpose ? { purpose: data.purpose } : {}),
    ...(typeof data.traceparent === "string" ? { traceparent: data.traceparent } : {}),
  };
}

/** @param {unknown} value */
function milliseconds(value) {
  return typeof value === "number" && value > 0 ? value : 0;
}
