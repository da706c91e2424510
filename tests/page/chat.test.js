/** The chat page's words, and how a person comes in. */

import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";

import { currentVisit, exchange, forgetVisit, takeCode } from "../../services/browser-bridge/hereabouts/browser_bridge/chat/visit.js";
import { answerWords, connectionText, progressWords } from "../../services/browser-bridge/hereabouts/browser_bridge/chat/words.js";

describe("words", () => {
  const reasons = {
    DECLINED: ["denied", "dismissed", "sharing_off"],
    PENDING: ["prompt_open", "acquiring", "tab_hidden"],
    UNAVAILABLE: ["would_prompt", "insecure_context", "unsupported", "permissions_policy", "position_unavailable", "timeout"],
  };

  it("every reason has words of its own", () => {
    const texts = Object.entries(reasons).flatMap(([status, all]) => all.map((reason) => answerWords({ status, reason }).text));
    assert.equal(new Set(texts).size, texts.length);
    assert.ok(texts.every((text) => text.length > 10));
  });

  it("every state while it works has words of its own", () => {
    const states = ["prompt_open", "waiting_for_user", "acquiring", "tab_hidden", undefined];
    assert.equal(new Set(states.map((state) => progressWords(state).text)).size, states.length);
  });

  it("a position is shown rounded, with its radius", () => {
    const granted = { status: "GRANTED", latitude: -33.868812, longitude: 151.209296, accuracy: 18.4, precision: "precise" };
    assert.equal(answerWords(granted).text, "Your position near 33.87° S, 151.21° E, to within 18 m.");
    const area = { ...granted, accuracy: 2_000, precision: "approximate" };
    assert.equal(answerWords(area).text, "An area near 33.87° S, 151.21° E, to within 2 km.");
  });

  it("a tool's failure does not show its own words", () => {
    assert.deepEqual(answerWords(null, "TypeError at line 3").text, "Something went wrong on this page.");
  });

  it("the connection counts down to the next try", () => {
    assert.equal(connectionText({ state: "connecting", retryInMs: 4_200 }), "Back in 5 s");
    assert.equal(connectionText({ state: "connecting" }), "Connecting");
    assert.equal(connectionText({ state: "live" }), "Connected");
  });
});

describe("coming in by a link", () => {
  let asked, answer, replaced, stored;
  const VISIT = { token: "t", sessionId: "s", socketUrl: "/ws" };

  beforeEach(() => {
    asked = [];
    replaced = [];
    stored = new Map();
    const sessionStorage = {
      getItem: (key) => stored.get(key) ?? null,
      setItem: (key, value) => stored.set(key, value),
      removeItem: (key) => stored.delete(key),
    };
    globalThis.window = { sessionStorage };
    globalThis.location = { hash: "", pathname: "/chat", search: "?a=1" };
    globalThis.history = { state: null, replaceState: (...all) => replaced.push(all) };
    globalThis.fetch = async (url, init) => {
      asked.push([url, init.method, init.body]);
      return answer();
    };
  });
  const reply = (status, body) => () => ({ status, ok: status < 400, json: async () => body });

  it("the code is taken out of the address at once", () => {
    location.hash = "#code=abc";
    assert.equal(takeCode(), "abc");
    assert.deepEqual(replaced, [[null, "", "/chat?a=1"]]);
    location.hash = "";
    assert.equal(takeCode(), null);
  });

  it("is exchanged by POST, and the visit outlives a reload until it is forgotten", async () => {
    answer = reply(200, { ...VISIT, user: "Ada", more: 1 });
    assert.deepEqual(await exchange("abc"), { visit: { ...VISIT, user: "Ada" } });
    assert.deepEqual(asked, [["/chat/exchange", "POST", '{"code":"abc"}']]);
    assert.deepEqual(currentVisit(), { ...VISIT, user: "Ada" });
    forgetVisit();
    assert.equal(currentVisit(), null);
  });

  it("a used code is refused, a broken service is not the link's fault", async () => {
    for (const [status, expected] of [[404, "refused"], [410, "refused"], [422, "refused"], [429, "unreachable"], [503, "unreachable"]]) {
      answer = reply(status, {});
      assert.deepEqual(await exchange("abc"), { [expected]: true });
    }
    answer = () => {
      throw new TypeError("network");
    };
    assert.deepEqual(await exchange("abc"), { unreachable: true });
    assert.equal(currentVisit(), null);
  });

  it("an answer that is no visit is not kept", async () => {
    answer = reply(200, { token: "t" });
    assert.deepEqual(await exchange("abc"), { unreachable: true });
    stored.set("hereabouts.visit", "{broken");
    assert.equal(currentVisit(), null);
  });
});
