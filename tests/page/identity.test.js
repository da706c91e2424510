import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { Choices } from "../../services/browser-bridge/hereabouts/browser_bridge/client/choices.js";
import { claimClientId } from "../../services/browser-bridge/hereabouts/browser_bridge/client/identity.js";

function storage(entries = {}) {
  const map = new Map(Object.entries(entries));
  return { getItem: (key) => map.get(key) ?? null, setItem: (key, value) => map.set(key, value), copy: () => storage(Object.fromEntries(map)) };
}

/** Web Locks of one origin: a held name is granted to nobody else. */
function lockManager() {
  const held = new Set();
  return {
    request(name, { signal }, use) {
      if (held.has(name)) {
        return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
      }
      held.add(name);
      return use({ name });
    },
    release: () => held.clear(),
  };
}

let made = 0;
const newId = () => `tab_${made++}`;
const claim = (parts) => claimClientId({ isReload: false, newId, ...parts });

describe("the tab's id", () => {
  it("is kept over a reload", async () => {
    const [store, locks] = [storage(), lockManager()];
    const id = await claim({ storage: store, locks });
    locks.release(); // the old document is gone
    assert.equal(await claim({ storage: store, locks }), id);
  });

  it("is a new one in a duplicated tab, which keeps it from then on", async () => {
    const [store, locks] = [storage(), lockManager()];
    const id = await claim({ storage: store, locks });
    const copied = store.copy();
    const other = await claim({ storage: copied, locks });
    assert.notEqual(other, id);
    assert.equal(copied.getItem("hereabouts.clientId"), other);
  });

  it("without locks is kept over a reload only", async () => {
    const store = storage();
    const id = await claim({ storage: store, locks: undefined });
    assert.equal(await claim({ storage: store, locks: undefined, isReload: true }), id);
    assert.notEqual(await claim({ storage: store, locks: undefined, isReload: false }), id);
  });

  it("needs no storage", async () => {
    assert.match(await claim({ storage: null, locks: lockManager() }), /^tab_/);
  });
});

describe("the person's choices", () => {
  it("are sharing and precise at first, remembered afterwards, and told", () => {
    const store = storage();
    const choices = new Choices(store);
    let changes = 0;
    choices.addEventListener("change", () => changes++);
    assert.deepEqual([choices.sharing, choices.precision], ["on", "precise"]);
    choices.sharing = "off";
    choices.precision = "approximate";
    choices.precision = "approximate";
    assert.equal(changes, 2);
    const later = new Choices(store);
    assert.deepEqual([later.sharing, later.precision], ["off", "approximate"]);
  });

  it("hold for the page where nothing can be stored", () => {
    const choices = new Choices({ getItem: () => null, setItem: () => { throw new Error("full"); } });
    choices.sharing = "off";
    assert.equal(choices.sharing, "off");
  });
});
