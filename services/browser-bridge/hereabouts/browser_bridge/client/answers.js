/**
 * The page's answers to `location_get`: four states, fixed reasons. An answer is a result, never an error.
 *
 * @typedef {"denied" | "dismissed" | "sharing_off"} DeclinedReason
 * @typedef {"prompt_open" | "acquiring" | "tab_hidden"} PendingReason
 * @typedef {"insecure_context" | "unsupported" | "permissions_policy" | "position_unavailable" | "timeout"
 *   | "would_prompt" | "cancelled"} UnavailableReason
 *
 * @typedef {object} Granted
 * @property {"GRANTED"} status
 * @property {number} latitude   degrees, WGS 84
 * @property {number} longitude  degrees, WGS 84
 * @property {number} accuracy   metres, 95 % radius
 * @property {number} timestamp  of the fix, milliseconds since the epoch
 * @property {number} ageMs      of the fix at sending, on the page's own clock
 * @property {import("./protocol.js").Precision} precision
 * @property {number} [altitude]          metres
 * @property {number} [altitudeAccuracy]  metres
 * @property {number} [speed]             metres a second
 * @property {number} [heading]           degrees clockwise from true north
 *
 * @typedef {{status: "DECLINED", reason: DeclinedReason}} Declined
 * @typedef {{status: "PENDING", reason: PendingReason}} Pending
 * @typedef {{status: "UNAVAILABLE", reason: UnavailableReason}} Unavailable
 * @typedef {Granted | Declined | Pending | Unavailable} LocationAnswer
 *
 * @typedef {object} Fix  what the browser said, as plain numbers
 * @property {number} latitude
 * @property {number} longitude
 * @property {number} accuracy
 * @property {number} timestamp
 * @property {number | null} [altitude]
 * @property {number | null} [altitudeAccuracy]
 * @property {number | null} [speed]
 * @property {number | null} [heading]
 */
import { APPROXIMATE_ACCURACY_M, cellCentre } from "./grid.js";

/** @param {DeclinedReason} reason @returns {Declined} */
export const declined = (reason) => ({ status: "DECLINED", reason });

/** @param {PendingReason} reason @returns {Pending} */
export const pending = (reason) => ({ status: "PENDING", reason });

/** @param {UnavailableReason} reason @returns {Unavailable} */
export const unavailable = (reason) => ({ status: "UNAVAILABLE", reason });

/**
 * A fix as the person wants it told. Approximate: the cell's centre, at least 2,000 m, nothing about height or motion.
 *
 * @param {Fix} fix
 * @param {import("./protocol.js").Precision} precision
 * @param {number} wallNow  milliseconds since the epoch
 * @returns {Granted}
 */
export function granted(fix, precision, wallNow) {
  const timestamp = Math.round(fix.timestamp);
  const common = /** @type {const} */ ({ status: "GRANTED", timestamp, ageMs: ageMs(timestamp, wallNow), precision });
  if (precision === "approximate") {
    return {
      ...common,
      ...cellCentre(fix.latitude, fix.longitude),
      accuracy: Math.max(APPROXIMATE_ACCURACY_M, fix.accuracy),
    };
  }
  return {
    ...common,
    latitude: fix.latitude,
    longitude: fix.longitude,
    accuracy: fix.accuracy,
    ...optional("altitude", fix.altitude),
    ...optional("altitudeAccuracy", fix.altitudeAccuracy),
    ...optional("speed", fix.speed),
    ...optional("heading", fix.heading),
  };
}

/**
 * How old a fix is. Never negative: a fix from a clock slightly ahead is new.
 *
 * @param {number} timestamp
 * @param {number} wallNow
 */
export function ageMs(timestamp, wallNow) {
  return Math.max(0, Math.round(wallNow - timestamp));
}

/**
 * The browser's position as plain numbers, or null when it is no position (some WebViews answer with empty fields).
 *
 * @param {any} position
 * @returns {Fix | null}
 */
export function readFix(position) {
  const coords = position?.coords;
  const needed = [coords?.latitude, coords?.longitude, coords?.accuracy, position?.timestamp];
  if (!needed.every((value) => Number.isFinite(value))) return null;
  return {
    latitude: coords.latitude,
    longitude: coords.longitude,
    accuracy: coords.accuracy,
    timestamp: position.timestamp,
    altitude: coords.altitude,
    altitudeAccuracy: coords.altitudeAccuracy,
    speed: coords.speed,
    heading: coords.heading,
  };
}

/**
 * A stationary device's heading is NaN and a missing altitude null: neither is said.
 *
 * @template {string} K
 * @param {K} name
 * @param {number | null | undefined} value
 * @returns {Partial<Record<K, number>>}
 */
function optional(name, value) {
  return /** @type {any} */ (typeof value === "number" && Number.isFinite(value) ? { [name]: value } : {});
}
