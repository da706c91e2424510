/**
 * Who this tab is. The id lives in sessionStorage, so a reload keeps it; a duplicated tab starts with a copy of that
 * storage and must take a new one. A Web Lock held for the page's life tells the two apart.
 *
 * @typedef {import("./choices.js").KeyValue} KeyValue
 */

const KEY = "hereabouts.clientId";

/** A reload asks for its own lock while the old document may still be letting go of it. */
const RELOAD_GRACE_MS = 300;

/**
 * The tab's client id, held until the page goes.
 *
 * @param {object} parts
 * @param {KeyValue | null} parts.storage
 * @param {LockManager | undefined} parts.locks  undefined outside secure contexts
 * @param {boolean} parts.isReload  the fallback's only hint that the stored id is this tab's own
 * @param {() => string} parts.newId
 */
export async function claimClientId({ storage, locks, isReload, newId }) {
  const stored = storage?.getItem(KEY);
  if (stored && (locks ? await hold(locks, stored) : isReload)) return stored;
  const id = newId();
  if (locks) await hold(locks, id);
  try {
    storage?.setItem(KEY, id);
  } catch {
    // A full storage: the id holds for this page.
  }
  return id;
}

/**
 * @param {LockManager} locks
 * @param {string} id
 * @returns {Promise<boolean>}
 */
function hold(locks, id) {
  return new Promise((resolve) => {
    const waiting = new AbortController();
    const timer = setTimeout(() => waiting.abort(), RELOAD_GRACE_MS);
    locks
      .request(`hereabouts-client:${id}`, { signal: waiting.signal }, () => {
        clearTimeout(timer);
        resolve(true);
        return new Promise(() => {}); // until the page goes
      })
      .catch(() => resolve(false));
  });
}

/** 128 random bits; `randomUUID` is missing on insecure origins. */
export function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `tab_${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** Whether this document came from a reload. */
export function isReload() {
  const [navigation] = performance.getEntriesByType("navigation");
  return /** @type {any} */ (navigation)?.type === "reload";
}
