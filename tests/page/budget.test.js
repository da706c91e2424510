import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { pauseMs } from "../../services/browser-bridge/hereabouts/browser_bridge/client/backoff.js";
import { Budget } from "../../services/browser-bridge/hereabouts/browser_bridge/client/budget.js";

describe("a budget that can stand still", () => {
  it("ends when it is spent", () => {
    assert.equal(new Budget(5_000, 0, 100).endsAt, 5_100);
  });

  it("does not count the time it stood still", () => {
    const budget = new Budget(5_000, 60_000, 0);
    budget.standStill(true, 1_000);
    budget.standStill(false, 31_000);
    assert.equal(budget.endsAt, 35_000);
  });

  it("stands still for its allowance in all, then runs on", () => {
    const budget = new Budget(5_000, 10_000, 0);
    budget.standStill(true, 0);
    budget.standStill(false, 8_000);
    budget.standStill(true, 9_000);
    assert.equal(budget.endsAt, 9_000 + 2_000 + 4_000);
    budget.standStill(false, 12_000); // 1,000 beyond the allowance
    assert.equal(budget.endsAt, 15_000);
  });
});

describe("the pause before a new connection", () => {
  it("is none at first, and then grows with jitter up to a cap", () => {
    assert.equal(pauseMs(0, 0.9), 0);
    assert.deepEqual([1, 2, 3, 20].map((attempt) => pauseMs(attempt, 0)), [500, 1_000, 2_000, 15_000]);
    assert.deepEqual([1, 2, 3, 20].map((attempt) => pauseMs(attempt, 1)), [1_000, 2_000, 4_000, 30_000]);
  });

  it("spreads the tabs of a restarting bridge, and waits when told that it is too soon", () => {
    assert.equal(pauseMs(0, 0.5, "restart"), 500);
    assert.equal(pauseMs(0, 0, "busy"), 5_000);
    assert.equal(pauseMs(20, 1, "busy"), 30_000);
  });
});
