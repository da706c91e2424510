/**
 * The browser as the modules need it: a few questions, one position request, one clock. The real one is built here;
 * tests hand in a scripted one. Nothing is remembered: each question is asked of the browser again.
 *
 * @typedef {import("./protocol.js").Permission} Permission
 * @typedef {"visibility" | "focus" | "permission"} Change
 *
 * @typedef {object} Browser
 * @property {() => boolean} isSecure          the page is a secure context
 * @property {() => boolean} hasGeolocation
 * @property {() => boolean} policyForbids     the page's permissions policy rules geolocation out, as far as it can be seen
 * @property {() => boolean} isHidden
 * @property {() => boolean} hasFocus
 * @property {() => Promise<Permission>} queryPermission  never rejects; "unknown" where it cannot be asked
 * @property {(options: {enableHighAccuracy: boolean, maximumAge: number}, found: (position: unknown) => void,
 *   failed: (code: number) => void) => void} getPosition
 * @property {(listener: (change: Change, permission?: Permission) => void) => () => void} watch  returns how to stop
 * @property {() => number} now      monotonic milliseconds
 * @property {() => number} wallNow  milliseconds since the epoch
 * @property {(ms: number, due: () => void) => () => void} after  a timer; returns how to cancel it
 */

/** A permission query takes about a millisecond; a browser that does not answer it counts as one that has none. */
const QUERY_MS = 1_000;

const POSITION_UNAVAILABLE = 2;

/**
 * The browser that this page runs in.
 *
 * @returns {Browser}
 */
export function realBrowser() {
  return {
    isSecure: () => window.isSecureContext,
    hasGeolocation: () => Boolean(navigator.geolocation),
    policyForbids,
    isHidden: () => document.visibilityState === "hidden",
    hasFocus: () => document.hasFocus(),
    queryPermission,
    getPosition,
    watch,
    now: () => performance.now(),
    wallNow: () => Date.now(),
    after(ms, due) {
      const timer = setTimeout(due, ms);
      return () => clearTimeout(timer);
    },
  };
}

function policyForbids() {
  /** @type {any} */
  const page = document;
  return page.featurePolicy?.allowsFeature?.("geolocation") === false;
}

/** @returns {Promise<PermissionStatus | null>} */
async function permissionStatus() {
  try {
    return (await navigator.permissions?.query({ name: "geolocation" })) ?? null;
  } catch {
    return null;
  }
}

/** @returns {Promise<Permission>} */
async function queryPermission() {
  /** @type {Promise<null>} */
  const tooLong = new Promise((resolve) => setTimeout(resolve, QUERY_MS, null));
  const status = await Promise.race([permissionStatus(), tooLong]);
  return status?.state ?? "unknown";
}

/** @type {Browser["getPosition"]} */
function getPosition(options, found, failed) {
  try {
    // No `timeout`: in Chromium it runs while the person still reads the prompt.
    navigator.geolocation.getCurrentPosition(found, (error) => failed(error.code), options);
  } catch {
    failed(POSITION_UNAVAILABLE);
  }
}

/** @type {Browser["watch"]} */
function watch(listener) {
  const stopping = new AbortController();
  const { signal } = stopping;
  document.addEventListener("visibilitychange", () => listener("visibility"), { signal });
  for (const name of ["focus", "blur"]) window.addEventListener(name, () => listener("focus"), { signal });
  void permissionStatus().then((status) => {
    if (signal.aborted) return;
    status?.addEventListener("change", () => listener("permission", status.state), { signal });
    // A PermissionStatus that nobody holds may be collected, and its events with it.
    signal.addEventListener("abort", () => void status);
  });
  return () => stopping.abort();
}
