/**
 * How a person comes in: a link with a one-time code, exchanged for a token that this tab keeps until it is closed.
 *
 * @typedef {object} Visit
 * @property {string} token
 * @property {string} sessionId
 * @property {string} socketUrl
 * @property {string} [user]
 *
 * @typedef {{visit: Visit} | {refused: true} | {unreachable: true}} Exchange
 */
import { openStorage } from "../client/choices.js";

const KEY = "hereabouts.visit";

/**
 * The code in the page's address, which is taken out of it at once: it must not stay in the history, be shared with the
 * address, or be sent again by a reload.
 *
 * @returns {string | null}
 */
export function takeCode() {
  if (!location.hash) return null;
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  history.replaceState(history.state, "", location.pathname + location.search);
  return code;
}

/**
 * Trade the code for a token, and keep that for a reload.
 *
 * @param {string} code
 * @returns {Promise<Exchange>}
 */
export async function exchange(code) {
  try {
    const response = await fetch("/chat/exchange", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ code }),
      cache: "no-store",
    });
    if (response.status >= 500 || response.status === 429) return { unreachable: true };
    if (!response.ok) return { refused: true };
    const visit = readVisit(await response.json());
    if (!visit) return { unreachable: true };
    keep(visit);
    return { visit };
  } catch {
    return { unreachable: true };
  }
}

/** The visit that this tab is on. @returns {Visit | null} */
export function currentVisit() {
  try {
    return readVisit(JSON.parse(openStorage("sessionStorage")?.getItem(KEY) ?? "null"));
  } catch {
    return null;
  }
}

/** The token is worth nothing any more. */
export function forgetVisit() {
  openStorage("sessionStorage")?.removeItem(KEY);
}

/** @param {Visit} visit */
function keep(visit) {
  try {
    openStorage("sessionStorage")?.setItem(KEY, JSON.stringify(visit));
  } catch {
    // A full or blocked storage: the visit lasts until the page is left.
  }
}

/**
 * @param {any} data
 * @returns {Visit | null}
 */
function readVisit(data) {
  const given = [data?.token, data?.sessionId, data?.socketUrl];
  if (!given.every((value) => typeof value === "string" && value)) return null;
  const { token, sessionId, socketUrl, user } = data;
  return { token, sessionId, socketUrl, ...(typeof user === "string" && user ? { user } : {}) };
}
