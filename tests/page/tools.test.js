/** The tool box: one execution per correlation id, and every answer arrives. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { MAX_RESULT_BYTES } from "../../services/browser-bridge/hereabouts/browser_bridge/client/protocol.js";
import { ToolBox } from "../../services/browser-bridge/hereabouts/browser_bridge/client/tools.js";
import { Clock, settle } from "./support.js";

const spec = (name) => ({ name, description: "a tool of a test", paramsSchema: { type: "object" } });
const invoke = (more = {}) => ({
  correlationId: "c1",
  name: "add",
  params: { a: 1 },
  budgetMs: 5_000,
  mayPrompt: true,
  wait: "no",
  waitMs: 0,
  ...more,
});

/** A channel that remembers; `acknowledges` false is a socket that is cut before the reply. */
function channel({ acknowledges = true } = {}) {
  const sent = [];
  return {
    sent,
    results: () => sent.filter(([type]) => type === "client-tool-result").map(([, data]) => data),
    notify: (type, data) => sent.push([type, data]),
    request: (type, data) => {
      sent.push([type, data]);
      return acknowledges ? Promise.resolve({ accepted: true }) : Promise.reject(new Error("the connection was lost"));
    },
  };
}

function box(run) {
  const clock = new Clock();
  const tools = new ToolBox(clock.after);
  let runs = 0;
  tools.add({
    spec: spec("add"),
    run: (params, ask) => {
      runs += 1;
      return run(params, ask);
    },
  });
  const wire = channel();
  tools.open(wire);
  const steps = [];
  tools.addEventListener("call", ({ detail }) => steps.push(detail.step));
  return { clock, tools, wire, steps, runs: () => runs };
}

/** A tool that answers when the test says so. */
function held() {
  let answer;
  const promise = new Promise((resolve) => (answer = resolve));
  return { run: () => promise, answer };
}

describe("results", () => {
  it("a result is sent with its timings", async () => {
    const { tools, wire } = box((params, ask) => {
      ask.measured({ clockMs: 1, phases: [] });
      return { sum: params.a + 1 };
    });
    tools.invoke(invoke());
    await settle();
    assert.deepEqual(wire.results(), [
      { correlationId: "c1", result: { sum: 2 }, error: null, timings: { clockMs: 1, phases: [] } },
    ]);
  });

  it("a tool that throws gives an error, and so does a tool that is not there", async () => {
    const { tools, wire } = box(() => {
      throw new Error("the list is empty");
    });
    tools.invoke(invoke());
    tools.invoke(invoke({ correlationId: "c2", name: "gone" }));
    await settle();
    assert.deepEqual(wire.results(), [
      { correlationId: "c1", result: null, error: "the list is empty" },
      { correlationId: "c2", result: null, error: "this page has no tool named gone" },
    ]);
  });

  it("a result of the limit is sent; one byte more is an error that says the sizes", async () => {
    for (const [length, error] of [
      [MAX_RESULT_BYTES - 2, null],
      [MAX_RESULT_BYTES - 1, `the tool's result has ${MAX_RESULT_BYTES + 1} bytes; at most ${MAX_RESULT_BYTES} can be sent`],
    ]) {
      const { tools, wire } = box(() => "x".repeat(length));
      tools.invoke(invoke());
      await settle();
      assert.equal(wire.results()[0].error, error);
      assert.equal(wire.results()[0].result === null, error !== null);
    }
  });

  it("what cannot be read as an invoke is left alone", async () => {
    const { tools, wire } = box(() => 1);
    for (const data of [undefined, null, {}, { correlationId: 1, name: "add" }]) tools.invoke(data);
    await settle();
    assert.deepEqual(wire.sent, []);
  });
});

describe("one execution per correlation id", () => {
  it("a duplicate gets the same answer without running again, for a minute", async () => {
    const { tools, wire, clock, runs } = box(() => "once");
    tools.invoke(invoke());
    await settle();
    await clock.advance(59_999);
    tools.invoke(invoke());
    await settle();
    assert.equal(runs(), 1);
    assert.deepEqual(wire.results().map((data) => data.result), ["once", "once"]);
    await clock.advance(1);
    tools.invoke(invoke());
    assert.equal(runs(), 2);
  });

  it("a duplicate of one still running joins it", async () => {
    const tool = held();
    const { tools, wire, runs } = box(tool.run);
    tools.invoke(invoke());
    tools.invoke(invoke());
    tool.answer(7);
    await settle();
    assert.equal(runs(), 1);
    assert.equal(wire.results().length, 1);
  });

  it("the same ask, come again with leave to prompt after would_prompt, is no duplicate", async () => {
    const { tools, wire, runs } = box((_, ask) =>
      ask.mayPrompt ? { status: "GRANTED" } : { status: "UNAVAILABLE", reason: "would_prompt" },
    );
    tools.invoke(invoke({ mayPrompt: false }));
    await settle();
    tools.invoke(invoke({ mayPrompt: true }));
    await settle();
    tools.invoke(invoke({ mayPrompt: true }));
    await settle();
    assert.equal(runs(), 2);
    assert.deepEqual(wire.results().map((data) => data.result.status), ["UNAVAILABLE", "GRANTED", "GRANTED"]);
  });

  it("and is remembered for its own minute", async () => {
    const { tools, clock, runs } = box((_, ask) => ({ reason: ask.mayPrompt ? "denied" : "would_prompt" }));
    tools.invoke(invoke({ mayPrompt: false }));
    await clock.advance(30_000);
    tools.invoke(invoke({ mayPrompt: true }));
    await clock.advance(40_000);
    tools.invoke(invoke({ mayPrompt: true }));
    assert.equal(runs(), 2);
  });

  it("leave to prompt that arrives while the silent ask runs is used when it ends in would_prompt", async () => {
    const silent = held();
    const { tools, wire } = box((_, ask) => (ask.mayPrompt ? { status: "PENDING" } : silent.run()));
    tools.invoke(invoke({ mayPrompt: false }));
    tools.invoke(invoke({ mayPrompt: true }));
    silent.answer({ status: "UNAVAILABLE", reason: "would_prompt" });
    await settle();
    assert.deepEqual(wire.results().map((data) => data.result.status), ["PENDING"]);
  });
});

describe("a socket that is cut", () => {
  it("a result made without a socket is sent through the next one", async () => {
    const tool = held();
    const { tools, wire } = box(tool.run);
    tools.invoke(invoke());
    tools.close();
    tool.answer("late but there");
    await settle();
    assert.deepEqual(wire.results(), []);
    const next = channel();
    tools.open(next);
    assert.deepEqual(next.results().map((data) => data.result), ["late but there"]);
  });

  it("a result that was not acknowledged is sent again, one that was is not", async () => {
    const { tools } = box(() => "x");
    const cut = channel({ acknowledges: false });
    tools.open(cut);
    tools.invoke(invoke());
    await settle();
    tools.close();
    const next = channel();
    tools.open(next);
    await settle();
    tools.close();
    const third = channel();
    tools.open(third);
    assert.deepEqual([cut, next, third].map((wire) => wire.results().length), [1, 1, 0]);
  });

  it("a held result is refreshed as it leaves", async () => {
    const { tools } = box(() => 0);
    tools.close();
    tools.add({ spec: spec("aged"), run: () => ({ age: 0 }), atSending: () => ({ age: 9 }) });
    tools.invoke(invoke({ name: "aged" }));
    await settle();
    const next = channel();
    tools.open(next);
    assert.deepEqual(next.results()[0].result, { age: 9 });
  });
});

describe("what a new socket is told", () => {
  it("how far an open call is", async () => {
    const { tools } = box((_, ask) => {
      ask.progress("waiting_for_user", "Allow it");
      ask.progress("prompt_open");
      return new Promise(() => {});
    });
    tools.invoke(invoke());
    tools.close();
    const next = channel();
    tools.open(next);
    assert.deepEqual(next.sent, [["client-tool-progress", { correlationId: "c1", state: "prompt_open" }]]);
  });

  it("a decision that fell while there was none", async () => {
    let late;
    const { tools, wire } = box((_, ask) => {
      late = ask.late;
      return { status: "PENDING" };
    });
    tools.invoke(invoke());
    await settle();
    tools.close();
    late("GRANTED");
    const next = channel();
    tools.open(next);
    const again = channel();
    tools.open(again);
    assert.equal(wire.sent.length, 1);
    assert.deepEqual(next.sent, [["client-tool-late-result", { correlationId: "c1", status: "GRANTED" }]]);
    assert.deepEqual(again.sent, []);
  });
});

describe("progress, late results, cancel", () => {
  it("progress and late results are notifications", async () => {
    const { tools, wire, steps } = box((_, ask) => {
      ask.progress("waiting_for_user", "Allow it");
      ask.progress("prompt_open");
      queueMicrotask(() => queueMicrotask(() => ask.late("GRANTED")));
      return { status: "PENDING", reason: "prompt_open" };
    });
    tools.invoke(invoke());
    await settle();
    const notes = wire.sent.filter(([type]) => type !== "client-tool-result");
    assert.deepEqual(notes, [
      ["client-tool-progress", { correlationId: "c1", state: "waiting_for_user", prompt: "Allow it" }],
      ["client-tool-progress", { correlationId: "c1", state: "prompt_open" }],
      ["client-tool-late-result", { correlationId: "c1", status: "GRANTED" }],
    ]);
    assert.deepEqual(steps.slice(0, 3), ["asked", "progress", "progress"]);
  });

  it("a cancelled call stops, sends nothing, and does not run again", async () => {
    const tool = held();
    let signal;
    const { tools, wire, runs, steps } = box((_, ask) => {
      signal = ask.signal;
      return tool.run();
    });
    tools.invoke(invoke());
    tools.cancel({ correlationId: "c1", reason: "settled" });
    assert.equal(signal.aborted, true);
    tool.answer("too late");
    await settle();
    tools.invoke(invoke());
    await settle();
    assert.deepEqual(wire.sent, []);
    assert.equal(runs(), 1);
    assert.deepEqual(steps, ["asked", "cancelled"]);
  });

  it("a cancel of an unknown or an answered call changes nothing", async () => {
    const { tools, wire } = box(() => 1);
    tools.cancel({ correlationId: "nobody" });
    tools.cancel(undefined);
    tools.invoke(invoke());
    await settle();
    tools.cancel({ correlationId: "c1" });
    tools.invoke(invoke());
    assert.equal(wire.results().length, 2);
  });

  it("nothing is left after a minute", async () => {
    const { tools, clock } = box(() => 1);
    tools.invoke(invoke());
    tools.invoke(invoke({ correlationId: "c2" }));
    await settle();
    assert.equal(clock.pending, 2);
    await clock.advance(60_000);
    assert.equal(clock.pending, 0);
  });
});
