/** Every row of the table "location_get in the page", and the rules below it. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { SOMEWHERE, position, scene, settle } from "./support.js";

const unavailable = (reason) => ({ status: "UNAVAILABLE", reason });
const declined = (reason) => ({ status: "DECLINED", reason });
const pending = (reason) => ({ status: "PENDING", reason });

describe("answers without asking the browser for a position", () => {
  const rows = [
    ["an insecure page", { secure: false }, unavailable("insecure_context")],
    ["no geolocation", { geolocation: false }, unavailable("unsupported")],
    ["a permissions policy that forbids it", { forbidden: true }, unavailable("permissions_policy")],
    ["a standing refusal", { permission: "denied" }, declined("denied")],
  ];
  for (const [name, set, expected] of rows) {
    it(name, async () => {
      const { browser, ask, clock } = scene();
      Object.assign(browser, set);
      const call = ask();
      await call.done;
      assert.deepEqual(call.answer, expected);
      assert.equal(browser.requests.length, 0);
      assert.deepEqual(call.progress, []);
      assert.equal(clock.pending, 0);
    });
  }

  it("sharing switched off", async () => {
    const { browser, choices, ask } = scene();
    choices.sharing = "off";
    const call = ask();
    await call.done;
    assert.deepEqual(call.answer, declined("sharing_off"));
    assert.equal(browser.requests.length, 0);
  });

  for (const permission of ["prompt", "unknown"]) {
    it(`permission ${permission} and no leave to prompt`, async () => {
      const { browser, ask } = scene(permission);
      const call = ask({ mayPrompt: false });
      await call.done;
      assert.deepEqual(call.answer, unavailable("would_prompt"));
      assert.equal(browser.requests.length, 0);
      assert.deepEqual(call.progress, []);
    });
  }
});

describe("permission granted", () => {
  it("gives the position, and passes the browser no timeout", async () => {
    const { browser, clock, ask } = scene();
    const call = ask();
    await clock.advance(40);
    browser.requests[0].found(position(clock, { agedMs: 7 }));
    await call.done;
    assert.deepEqual(browser.requests[0].options, { enableHighAccuracy: false, maximumAge: 0 });
    assert.deepEqual(call.answer, {
      status: "GRANTED",
      ...SOMEWHERE,
      accuracy: 20,
      timestamp: clock.wallNow() - 7,
      ageMs: 7,
      precision: "precise",
    });
    assert.deepEqual(call.progress, [], "a quick fix needs no report");
  });

  it("answers a silent ask too", async () => {
    const { browser, clock, ask } = scene();
    const call = ask({ mayPrompt: false });
    await settle();
    browser.requests[0].found(position(clock));
    await call.done;
    assert.equal(call.answer.status, "GRANTED");
  });

  it("passes the ask's age and a high accuracy on", async () => {
    const { browser, ask } = scene();
    ask({ params: { desired_accuracy: "precise", max_age_ms: 30_000 } });
    await settle();
    assert.deepEqual(browser.requests[0].options, { enableHighAccuracy: true, maximumAge: 30_000 });
  });

  for (const params of [{ desired_accuracy: "constructor", max_age_ms: "old" }, { desired_accuracy: -1, max_age_ms: -1 }]) {
    it(`takes ${JSON.stringify(params)} as no wish`, async () => {
      const { browser, ask } = scene();
      ask({ params });
      await settle();
      assert.deepEqual(browser.requests[0].options, { enableHighAccuracy: false, maximumAge: 0 });
    });
  }

  it("is PENDING acquiring when its own timer comes first, having said so", async () => {
    const { clock, ask } = scene();
    const call = ask();
    await clock.advance(4_999);
    assert.equal(call.answer, undefined);
    await clock.advance(1);
    assert.deepEqual(call.answer, pending("acquiring"));
    assert.deepEqual(call.progress, ["acquiring"]);
  });

  it("keeps to a budget smaller than five seconds", async () => {
    const { clock, ask } = scene();
    const call = ask({ budgetMs: 800 });
    await clock.advance(800);
    assert.deepEqual(call.answer, pending("acquiring"));
  });

  it("is UNAVAILABLE timeout when the same request is still open at the end of the next call", async () => {
    const { browser, clock, ask } = scene();
    const first = ask();
    await clock.advance(5_000);
    const second = ask();
    await clock.advance(5_000);
    assert.deepEqual([first.answer, second.answer], [pending("acquiring"), unavailable("timeout")]);
    assert.equal(browser.requests.length, 1);
  });

  it("two calls at the same time that time out are one wait, not two", async () => {
    const { clock, ask } = scene();
    const first = ask();
    const second = ask();
    await clock.advance(5_000);
    assert.deepEqual([first.answer, second.answer], [pending("acquiring"), pending("acquiring")]);
  });

  for (const [code, reason] of [
    [2, "position_unavailable"],
    [3, "timeout"],
  ]) {
    it(`code ${code} is UNAVAILABLE ${reason}`, async () => {
      const { browser, ask } = scene();
      const call = ask();
      await settle();
      browser.requests[0].failed(code);
      await call.done;
      assert.deepEqual(call.answer, unavailable(reason));
    });
  }

  it("code 1 while the state says granted is a policy that could not be seen", async () => {
    const { browser, ask } = scene();
    const call = ask();
    await settle();
    browser.requests[0].failed(1);
    await call.done;
    assert.deepEqual(call.answer, unavailable("permissions_policy"));
  });

  it("a position without numbers is none", async () => {
    const { browser, clock, ask } = scene();
    const call = ask();
    await settle();
    browser.requests[0].found(position(clock, { latitude: NaN }));
    await call.done;
    assert.deepEqual(call.answer, unavailable("position_unavailable"));
  });
});

for (const permission of ["prompt", "unknown"]) {
  describe(`permission ${permission}, with leave to prompt`, () => {
    it("reports prompt_open before the browser is asked", async () => {
      const { browser, clock, ask } = scene(permission);
      let requestsWhenReported;
      const call = ask({ progress: () => (requestsWhenReported = browser.requests.length) });
      await settle();
      assert.equal(requestsWhenReported, 0);
      browser.requests[0].found(position(clock));
      await call.done;
      assert.equal(call.answer.status, "GRANTED");
    });

    it("is PENDING prompt_open when its own timer comes first", async () => {
      const { clock, ask } = scene(permission);
      const call = ask();
      await clock.advance(5_000);
      assert.deepEqual(call.answer, pending("prompt_open"));
      assert.deepEqual(call.progress, ["prompt_open"]);
    });

    for (const [code, reason] of [
      [2, "position_unavailable"],
      [3, "timeout"],
    ]) {
      it(`code ${code} is UNAVAILABLE ${reason}`, async () => {
        const { browser, ask } = scene(permission);
        const call = ask();
        await settle();
        browser.requests[0].failed(code);
        await call.done;
        assert.deepEqual(call.answer, unavailable(reason));
      });
    }
  });
}

describe("after code 1 the state is asked again", () => {
  for (const [before, after, reason] of [
    ["prompt", "denied", "denied"],
    ["prompt", "prompt", "dismissed"],
    ["unknown", "unknown", "denied"],
  ]) {
    it(`${before}, then ${after}: DECLINED ${reason}`, async () => {
      const { browser, ask } = scene(before);
      const call = ask();
      await settle();
      browser.permission = after;
      browser.requests[0].failed(1);
      await call.done;
      assert.deepEqual(call.answer, declined(reason));
      assert.equal(browser.queries, 2);
    });
  }
});

describe("a hidden page", () => {
  for (const permission of ["granted", "prompt"]) {
    it(`with permission ${permission} is PENDING tab_hidden, and says so at once`, async () => {
      const { browser, clock, ask } = scene(permission);
      browser.hidden = true;
      const call = ask();
      await settle();
      assert.deepEqual(call.progress, ["tab_hidden"]);
      await clock.advance(5_000);
      assert.deepEqual(call.answer, pending("tab_hidden"));
    });
  }

  it("never turns into a timeout: the browser's request sleeps with the page", async () => {
    const { browser, clock, ask } = scene();
    browser.hidden = true;
    ask();
    await clock.advance(5_000);
    const second = ask();
    await clock.advance(5_000);
    assert.deepEqual(second.answer, pending("tab_hidden"));
  });

  it("that is shown again in time gives its position", async () => {
    const { browser, clock, ask } = scene();
    browser.hidden = true;
    const call = ask();
    await clock.advance(1_000);
    browser.setHidden(false);
    browser.requests[0].found(position(clock));
    await call.done;
    assert.equal(call.answer.status, "GRANTED");
    assert.deepEqual(call.progress, ["tab_hidden", "acquiring"]);
  });
});

describe("one browser request at a time", () => {
  it("a second call joins the prompt and shares its answer", async () => {
    const { browser, clock, ask } = scene("prompt");
    const calls = [ask(), ask(), ask()];
    await settle();
    assert.equal(browser.requests.length, 1);
    browser.requests[0].found(position(clock));
    await Promise.all(calls.map((call) => call.done));
    assert.deepEqual(calls.map((call) => call.answer.status), ["GRANTED", "GRANTED", "GRANTED"]);
  });

  it("shares a refusal too", async () => {
    const { browser, ask } = scene("prompt");
    const calls = [ask(), ask()];
    await settle();
    browser.permission = "denied";
    browser.requests[0].failed(1);
    await Promise.all(calls.map((call) => call.done));
    assert.deepEqual(calls.map((call) => call.answer), [declined("denied"), declined("denied")]);
  });

  it("a fix that is too old for the second call is not shared: it asks anew, by its own age", async () => {
    const { browser, clock, ask } = scene();
    const patient = ask({ params: { max_age_ms: 60_000 } });
    const strict = ask({ params: { max_age_ms: 0 } });
    await settle();
    browser.requests[0].found(position(clock, { agedMs: 50_000 }));
    await patient.done;
    assert.equal(patient.answer.ageMs, 50_000);
    await settle();
    assert.equal(strict.answer, undefined);
    assert.deepEqual(browser.requests[1].options, { enableHighAccuracy: false, maximumAge: 0 });
    browser.requests[1].found(position(clock));
    await strict.done;
    assert.equal(strict.answer.ageMs, 0);
  });

  it("a call that asks anew after a shared grant is finding its position, not waiting for the person", async () => {
    const { browser, clock, ask } = scene("unknown");
    ask({ params: { max_age_ms: 60_000 } });
    const strict = ask();
    await settle();
    browser.requests[0].found(position(clock, { agedMs: 50_000 }));
    await clock.advance(5_000);
    assert.deepEqual(strict.progress, ["prompt_open", "acquiring"]);
    assert.deepEqual(strict.answer, pending("acquiring"));
  });

  it("a fix that is not exact enough is put by, and answers if nothing better comes", async () => {
    const { browser, clock, ask } = scene();
    const coarse = ask({ params: { desired_accuracy: "coarse" } });
    const precise = ask({ params: { desired_accuracy: 10 } });
    await settle();
    browser.requests[0].found(position(clock, { accuracy: 900 }));
    await coarse.done;
    await settle();
    assert.equal(browser.requests[1].options.enableHighAccuracy, true);
    await clock.advance(5_000);
    assert.equal(precise.answer.status, "GRANTED");
    assert.equal(precise.answer.accuracy, 900);
  });
});

describe("after PENDING", () => {
  it("a late Allow is reported by status alone, and answers the next call at once", async () => {
    const { browser, clock, ask } = scene("prompt");
    const first = ask();
    await clock.advance(5_000);
    browser.setPermission("granted");
    browser.requests[0].found(position(clock));
    assert.deepEqual(first.late, ["GRANTED"]);
    await clock.advance(2_000);
    const second = ask();
    await second.done;
    assert.equal(second.answer.status, "GRANTED");
    assert.equal(second.answer.ageMs, 2_000);
    assert.equal(browser.requests.length, 1);
  });

  it("a kept position answers once, and not when the ask wants a newer one", async () => {
    for (const [waitMs, params] of [
      [2_000, { max_age_ms: 1_000 }],
      [16_000, {}],
    ]) {
      const { browser, clock, ask } = scene();
      ask();
      await clock.advance(5_000);
      browser.requests[0].found(position(clock));
      await clock.advance(waitMs);
      ask({ params });
      await settle();
      assert.equal(browser.requests.length, 2);
    }
  });

  it("a late dismissal answers the next call that could prompt, without a prompt", async () => {
    const { browser, clock, ask } = scene("prompt");
    const first = ask();
    await clock.advance(5_000);
    browser.requests[0].failed(1);
    await settle();
    assert.deepEqual(first.late, ["DECLINED"]);
    const silent = ask({ mayPrompt: false });
    await silent.done;
    assert.deepEqual(silent.answer, unavailable("would_prompt"));
    const second = ask();
    await second.done;
    assert.deepEqual(second.answer, declined("dismissed"));
    assert.equal(browser.requests.length, 1);
  });

  it("a kept refusal does not outlive a changed permission", async () => {
    const { browser, clock, ask } = scene("prompt");
    ask();
    await clock.advance(5_000);
    browser.requests[0].failed(1);
    await settle();
    browser.setPermission("granted");
    const second = ask();
    await settle();
    browser.requests[1].found(position(clock));
    await second.done;
    assert.equal(second.answer.status, "GRANTED");
  });

  it("the next call joins the prompt that is still open", async () => {
    const { browser, clock, ask } = scene("prompt");
    const first = ask();
    await clock.advance(5_000);
    const second = ask();
    await clock.advance(100);
    browser.permission = "granted";
    browser.requests[0].found(position(clock));
    await second.done;
    assert.equal(second.answer.status, "GRANTED");
    assert.deepEqual(first.late, ["GRANTED"]);
    assert.equal(browser.requests.length, 1);
  });

  it("what the browser says twice is reported once", async () => {
    const { browser, clock, ask } = scene("prompt");
    const first = ask();
    await clock.advance(5_000);
    browser.setPermission("denied");
    browser.requests[0].failed(1);
    await settle();
    assert.deepEqual(first.late, ["DECLINED"]);
  });

  it("only calls that were answered PENDING hear of it later", async () => {
    const { browser, clock, ask } = scene();
    const first = ask();
    await clock.advance(5_000);
    const second = ask();
    await clock.advance(5_000);
    browser.requests[0].found(position(clock));
    assert.deepEqual([first.late, second.late], [["GRANTED"], []]);
  });

  it("a request that a grant from the settings left without a callback is given up after two calls", async () => {
    const { browser, clock, ask } = scene("prompt");
    ask();
    await clock.advance(5_000);
    browser.setPermission("granted");
    ask();
    await clock.advance(5_000);
    const third = ask();
    await clock.advance(5_000);
    assert.deepEqual(third.answer, unavailable("timeout"));
    const fourth = ask();
    await settle();
    browser.requests[1].found(position(clock));
    await fourth.done;
    assert.equal(fourth.answer.status, "GRANTED");
  });
});

describe("the permission changes while a call is open", () => {
  it("blocked in the settings: DECLINED at once, and the next call after a reset asks anew", async () => {
    const { browser, ask } = scene("prompt");
    const call = ask();
    await settle();
    browser.setPermission("denied");
    await call.done;
    assert.deepEqual(call.answer, declined("denied"));
    browser.setPermission("prompt");
    ask();
    await settle();
    assert.equal(browser.requests.length, 2);
  });

  it("is never cached: every call asks the browser", async () => {
    const { browser, ask } = scene("denied");
    for (let i = 1; i <= 3; i++) {
      await ask().done;
      assert.equal(browser.queries, i);
    }
  });
});

describe("wait: user", () => {
  it("says so with a prompt before the browser is asked, and the clock stands still", async () => {
    const { browser, clock, ask } = scene("prompt");
    const call = ask({ wait: "user", waitMs: 300_000 });
    await settle();
    assert.deepEqual(call.progress, [
      { state: "waiting_for_user", prompt: "Allow location access to continue" },
      "prompt_open",
    ]);
    await clock.advance(120_000);
    assert.equal(call.answer, undefined);
    browser.setPermission("granted");
    assert.equal(call.progress.at(-1), "acquiring");
    await clock.advance(4_999);
    assert.equal(call.answer, undefined);
    await clock.advance(1);
    assert.deepEqual(call.answer, pending("acquiring"));
  });

  it("stands still no longer than waitMs", async () => {
    const { clock, ask } = scene("prompt");
    const call = ask({ wait: "user", waitMs: 60_000 });
    await clock.advance(64_999);
    assert.equal(call.answer, undefined);
    await clock.advance(1);
    assert.deepEqual(call.answer, pending("prompt_open"));
  });

  it("runs while the page is hidden: nobody is deciding", async () => {
    const { browser, clock, ask } = scene("prompt");
    browser.hidden = true;
    const call = ask({ wait: "user", waitMs: 60_000 });
    await clock.advance(5_000);
    assert.deepEqual(call.answer, pending("tab_hidden"));
  });
});

describe("the person's choices", () => {
  it("sharing switched off ends open calls, and nothing is told afterwards", async () => {
    const { browser, clock, choices, ask } = scene();
    const first = ask();
    await clock.advance(5_000);
    const second = ask();
    await settle();
    choices.sharing = "off";
    await second.done;
    assert.deepEqual(second.answer, declined("sharing_off"));
    browser.requests[0].found(position(clock));
    assert.deepEqual(first.late, ["DECLINED"]);
    choices.sharing = "on";
    ask();
    await settle();
    assert.equal(browser.requests.length, 2, "the position of before is not kept");
  });

  it("approximate: a cell of a fixed grid, at least 2,000 m, nothing about height or motion", async () => {
    const { browser, clock, choices, ask } = scene();
    choices.precision = "approximate";
    const call = ask({ params: { desired_accuracy: "precise" } });
    await settle();
    assert.equal(browser.requests[0].options.enableHighAccuracy, false);
    browser.requests[0].found(position(clock, { altitude: 520, altitudeAccuracy: 3, speed: 2, heading: 90 }));
    await call.done;
    const { latitude, longitude, ...rest } = call.answer;
    assert.deepEqual(rest, {
      status: "GRANTED",
      accuracy: 2_000,
      timestamp: clock.wallNow(),
      ageMs: 0,
      precision: "approximate",
    });
    assert.notEqual(latitude, SOMEWHERE.latitude);
    assert.ok(Math.abs(latitude - SOMEWHERE.latitude) * 111_320 <= 1_000.001);
    assert.notEqual(longitude, SOMEWHERE.longitude);
  });
});

describe("cancel and close", () => {
  it("a cancelled call ends; the prompt stays, and the next call joins it", async () => {
    const { browser, clock, ask } = scene("prompt");
    const call = ask({ wait: "user", waitMs: 300_000 });
    await settle();
    call.cancel();
    await call.done;
    assert.deepEqual(call.answer, unavailable("cancelled"));
    assert.equal(clock.pending, 0);
    ask();
    await settle();
    assert.equal(browser.requests.length, 1);
  });

  it("a closed tool listens to nothing", () => {
    const { browser, tool } = scene();
    assert.equal(browser.listeners, 1);
    tool.close();
    assert.equal(browser.listeners, 0);
  });
});

describe("timings and ages", () => {
  it("name the phases, end to end, on the page's own clock", async () => {
    const { browser, clock, ask } = scene("prompt");
    const call = ask();
    await clock.advance(3_000);
    browser.setPermission("granted");
    await clock.advance(500);
    browser.requests[0].found(position(clock));
    await call.done;
    assert.deepEqual(call.timings, {
      clockMs: clock.wallNow(),
      phases: [
        { name: "permission_query", startMs: 0, endMs: 0 },
        { name: "prompt_open", startMs: 0, endMs: 3_000 },
        { name: "acquiring", startMs: 3_000, endMs: 3_500 },
        { name: "answered", startMs: 3_500, endMs: 3_500 },
      ],
    });
  });

  it("are as many as the bridge takes, however often the tab is hidden", async () => {
    const { browser, clock, ask } = scene();
    const call = ask();
    await settle();
    for (let i = 0; i < 40; i++) {
      await clock.advance(10);
      browser.setHidden(i % 2 === 0);
    }
    browser.requests[0].found(position(clock));
    await call.done;
    assert.equal(call.timings.phases.length, 16);
    assert.deepEqual(call.timings.phases.at(-1), { name: "answered", startMs: 400, endMs: 400 });
    assert.equal(call.timings.phases.at(-2).endMs, 400);
  });

  it("a position held back by a lost socket has aged when it leaves", async () => {
    const { browser, clock, tool, ask } = scene();
    const call = ask();
    await settle();
    browser.requests[0].found(position(clock));
    await call.done;
    await clock.advance(3_000);
    assert.equal(tool.atSending(call.answer).ageMs, 3_000);
  });
});
