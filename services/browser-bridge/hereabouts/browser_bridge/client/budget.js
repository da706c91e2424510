/**
 * A call's time: a budget that can stand still while the person decides, itself for a limited time. No timer inside:
 * times go in, the time at which it ends comes out. All times are milliseconds on one monotonic clock.
 */
export class Budget {
  #leftMs;
  #allowanceMs;
  #since;
  #still = false;

  /**
   * @param {number} budgetMs  how long the clock may run
   * @param {number} stillMs   how long it may stand still in all
   * @param {number} now
   */
  constructor(budgetMs, stillMs, now) {
    this.#leftMs = budgetMs;
    this.#allowanceMs = stillMs;
    this.#since = now;
  }

  /**
   * Let the clock stand still, or run.
   *
   * @param {boolean} still
   * @param {number} now
   */
  standStill(still, now) {
    this.#advance(now);
    this.#still = still;
  }

  /** When the budget ends if nothing changes. A spent allowance lets the clock run on. */
  get endsAt() {
    return this.#since + this.#leftMs + (this.#still ? this.#allowanceMs : 0);
  }

  /** @param {number} now */
  #advance(now) {
    let passed = Math.max(0, now - this.#since);
    if (this.#still) {
      const free = Math.min(passed, this.#allowanceMs);
      this.#allowanceMs -= free;
      passed -= free;
    }
    this.#leftMs = Math.max(0, this.#leftMs - passed);
    this.#since = Math.max(this.#since, now);
  }
}
