/**
 * When to try again: at once, then later and later, never all tabs in step. No clock: numbers in, numbers out.
 */

const BASE_MS = 500;

/** The longest pause: a person who looks at the page again should not wait longer than this for it to come back. */
const CAP_MS = 30_000;

/** After 1008, 1009 and 1013 the bridge has said that at once is too soon. */
const BUSY_FLOOR_MS = 5_000;

/** After 1012 all tabs of a bridge come back together: spread the first try over this. */
const RESTART_SPREAD_MS = 1_000;

/**
 * The pause before a try, in milliseconds: exponential, with equal jitter (half fixed, half random), so that two tabs
 * part and none of them hammers.
 *
 * @param {number} attempt  0 for the first try after a connection that worked
 * @param {number} random   0 to 1
 * @param {"none" | "restart" | "busy"} hint  what the close code said
 */
export function pauseMs(attempt, random, hint = "none") {
  if (attempt === 0 && hint === "none") return 0;
  if (attempt === 0 && hint === "restart") return random * RESTART_SPREAD_MS;
  const full = Math.min(CAP_MS, BASE_MS * 2 ** attempt);
  const pause = full / 2 + (full / 2) * random;
  return hint === "busy" ? Math.max(BUSY_FLOOR_MS * (1 + random), pause) : pause;
}
