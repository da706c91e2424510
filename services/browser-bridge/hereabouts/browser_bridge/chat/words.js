/**
 * What the page says to the person. Pure: an event in, words out.
 *
 * @typedef {"shared" | "declined" | "pending" | "unavailable" | "waiting"} Tone
 * @typedef {{tone: Tone, title: string, text: string}} Words
 */

/** @type {Record<string, [string, string]>} */
const DECLINED = {
  denied: [
    "Not shared",
    "Your browser blocks location for this page. To change that, use the site settings beside the address.",
  ],
  dismissed: ["Not shared", "You closed the browser’s question. The agent was told not to ask again."],
  sharing_off: ["Not shared", "You have switched sharing off. The agent was told so."],
};

/** @type {Record<string, [string, string]>} */
const PENDING = {
  prompt_open: [
    "Not decided yet",
    "The agent goes on without it for now. The browser’s question stays open: take your time.",
  ],
  acquiring: ["Not found yet", "Your device is still looking for its position. The agent may ask again."],
  tab_hidden: ["Waiting for you", "This page was in the background, so the browser could not answer."],
};

/** @type {Record<string, [string, string]>} */
const UNAVAILABLE = {
  would_prompt: ["Nothing shared", "The agent looked for a permission that you gave before. There is none."],
  insecure_context: ["Not possible", "This page was not opened over a secure connection."],
  unsupported: ["Not possible", "This browser cannot tell a location."],
  permissions_policy: ["Not possible", "The page that this one is part of does not allow location."],
  position_unavailable: ["No position", "Your device could not find where it is."],
  timeout: ["No position", "Your device did not find where it is in time."],
};

/** @type {Record<string, [string, string]>} */
const PROGRESS = {
  prompt_open: ["Your browser is asking you", "Allow it or block it there. The agent waits a moment for you."],
  waiting_for_user: ["Your browser is asking you", "Allow it or block it there. The agent waits for you."],
  acquiring: ["Finding your position", "This takes a moment."],
  tab_hidden: ["Waiting for this page", "The browser answers when you look at it."],
};

/**
 * A call's last word, from its result.
 *
 * @param {any} result
 * @param {string | undefined} error
 * @returns {Words}
 */
export function answerWords(result, error) {
  if (error !== undefined) return words("unavailable", ["Not answered", "Something went wrong on this page."]);
  switch (result?.status) {
    case "GRANTED":
      return words("shared", ["Shared with the agent", positionText(result)]);
    case "DECLINED":
      return words("declined", DECLINED[result.reason] ?? ["Not shared", ""]);
    case "PENDING":
      return words("pending", PENDING[result.reason] ?? ["Not decided yet", ""]);
    case "UNAVAILABLE":
      return words("unavailable", UNAVAILABLE[result.reason] ?? ["Not possible", ""]);
    default:
      return words("shared", ["Answered", "The agent has its answer."]);
  }
}

/**
 * @param {string | undefined} state
 * @returns {Words}
 */
export function progressWords(state) {
  return words("waiting", PROGRESS[state ?? ""] ?? ["Looking", "Checking what you allow."]);
}

/**
 * What came of a call after the agent was told to wait.
 *
 * @param {string | undefined} status
 * @returns {string}
 */
export function lateText(status) {
  if (status === "GRANTED") return "You have allowed it since. The agent’s next question is answered at once.";
  if (status === "DECLINED") return "You have declined since. The agent was told so.";
  return "No position was found afterwards.";
}

/** @returns {Words} */
export function cancelledWords() {
  return words("unavailable", ["No longer needed", "The agent has gone on without this page."]);
}

/**
 * @param {import("../client/connection.js").StateEvent} event
 */
export function connectionText({ state, retryInMs }) {
  if (state === "live") return "Connected";
  if (state === "open") return "Not in a conversation";
  if (state === "closed") return "Disconnected";
  if (retryInMs === undefined || retryInMs < 1_000) return "Connecting";
  return `Back in ${Math.ceil(retryInMs / 1_000)} s`;
}

/**
 * @param {import("../client/protocol.js").Permission} permission
 */
export function permissionText(permission) {
  return {
    granted: "Your browser allows location for this page.",
    denied: "Your browser blocks location for this page.",
    prompt: "Your browser asks you before it tells a location.",
    unknown: "Your browser decides whether to ask you.",
  }[permission];
}

/**
 * The person's own position on their own screen: rounded to about a kilometre, with the radius that was told.
 *
 * @param {any} result
 */
function positionText({ latitude, longitude, accuracy, precision }) {
  const near = `${degrees(latitude, "N", "S")}, ${degrees(longitude, "E", "W")}`;
  const kind = precision === "approximate" ? "An area" : "Your position";
  return `${kind} near ${near}, to within ${distance(accuracy)}.`;
}

/**
 * @param {number} value
 * @param {string} positive
 * @param {string} negative
 */
function degrees(value, positive, negative) {
  return `${Math.abs(value).toFixed(2)}° ${value < 0 ? negative : positive}`;
}

/** @param {number} metres */
function distance(metres) {
  if (metres < 1_000) return `${Math.max(1, Math.round(metres))} m`;
  return `${(metres / 1_000).toFixed(metres < 10_000 ? 1 : 0).replace(/\.0$/, "")} km`;
}

/**
 * @param {Tone} tone
 * @param {[string, string]} pair
 * @returns {Words}
 */
function words(tone, [title, text]) {
  return { tone, title, text };
}
