/** Connection and attachment against a scripted bridge, on mocked timers. */

import assert from "node:assert/strict";
import { afterEach, describe, it, mock } from "node:test";

import { Connection } from "../../services/browser-bridge/hereabouts/browser_bridge/client/connection.js";
import { Presence } from "../../services/browser-bridge/hereabouts/browser_bridge/client/presence.js";
import { Attachment } from "../../services/browser-bridge/hereabouts/browser_bridge/client/session.js";
import { ToolBox } from "../../services/browser-bridge/hereabouts/browser_bridge/client/tools.js";
import { Choices } from "../../services/browser-bridge/hereabouts/browser_bridge/client/choices.js";
import { Clock, ScriptedBrowser, settle } from "./support.js";


afterEach(() => mock.timers.reset());

/** A socket whose other end is the test: `answers` maps a frame's type to the reply's data, or to an error. */
class Socket {
  readyState = 0;
  frames = [];
  closedWith = undefined;

  constructor(url, answers) {
    this.url = url;
    this.answers = answers;
  }

  open() {
    this.readyState = 1;
    this.onopen();
  }

  send(text) {
    const frame = JSON.parse(text);
    this.frames.push(frame);
    const answer = this.answers[frame.type];
    if (frame.id === undefined || answer === undefined) return;
    queueMicrotask(() => {
      if (answer.errorCode) this.say({ replyTo: frame.id, type: "error", data: answer });
      else this.say({ replyTo: frame.id, type: "ack", data: answer });
    });
  }

  say(frame) {
    this.onmessage({ data: typeof frame === "string" ? frame : JSON.stringify(frame) });
  }

  close(code) {
    assert.ok(code === 1000 || (code >= 3000 && code <= 4999), "browsers refuse other codes");
    this.readyState = 3;
    this.closedWith = code;
  }

  cut(code) {
    this.readyState = 3;
    this.onclose({ code });
  }

  types() {
    return this.frames.map((frame) => frame.type);
  }
}

const WELCOMING = {
  hello: { connectionId: "k", resume: "secret-1", serverTimeMs: 1, limits: {} },
  "session-bind": { mode: "live" },
  "client-tool-register": {},
  "client-tool-unregister": {},
  "client-tool-result": { accepted: true },
};

function scene(answers = WELCOMING, more = {}) {
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout"] });
  const sockets = [];
  const life = {};
  const states = [];
  const connection = new Connection({
    url: "wss://bridge.example/ws",
    clientId: "tab_1",
    token: "token-1",
    sessionId: "s_1",
    describe: async () => ({ visibility: "visible", focused: true }),
    lifecycle: {
      watch(wake, sleep) {
        Object.assign(life, { wake, sleep });
        return () => {
          life.wake = life.sleep = undefined;
        };
      },
    },
    openSocket: (url) => {
      const socket = new Socket(url, { ...answers });
      sockets.push(socket);
      return socket;
    },
    ...more,
  });
  connection.addEventListener("state", ({ detail }) => states.push(detail));
  return { connection, sockets, life, states };
}

async function opened(socket) {
  socket.open();
  await settle();
}

describe("the opening", () => {
  it("says hello first, with the token in the frame and not in the URL, then binds", async () => {
    const { connection, sockets, states } = scene();
    connection.start();
    await opened(sockets[0]);
    assert.deepEqual(sockets[0].types(), ["hello", "session-bind"]);
    assert.deepEqual(sockets[0].frames[0].data, {
      token: "token-1",
      clientId: "tab_1",
      visibility: "visible",
      focused: true,
    });
    assert.equal(sockets[0].url, "wss://bridge.example/ws");
    assert.deepEqual(states.map((s) => s.state), ["connecting", "open", "live"]);
  });

  it("starting twice opens one socket", () => {
    const { connection, sockets } = scene();
    connection.start();
    connection.start();
    assert.equal(sockets.length, 1);
  });

  it("a token that does not cover the session leaves it open, not live, and says why", async () => {
    const refusal = { errorCode: 403, errorMessage: "no token covers this session" };
    const { connection, sockets, states } = scene({ ...WELCOMING, "session-bind": refusal });
    connection.start();
    await opened(sockets[0]);
    assert.equal(connection.state, "open");
    assert.equal(states.at(-1).problem, "no token covers this session");
  });

  it("a bridge that cannot look the session up just now is tried again later", async () => {
    const passing = { errorCode: 503, errorMessage: "try again later" };
    const { connection, sockets, states } = scene({ ...WELCOMING, "session-bind": passing });
    connection.start();
    await opened(sockets[0]);
    assert.equal(sockets[0].closedWith, 4900);
    assert.equal(states.at(-1).state, "connecting");
    assert.ok(states.at(-1).retryInMs >= 5_000);
  });

  it("a socket that opens and stays silent is dropped and tried again", async () => {
    const { connection, sockets } = scene({});
    connection.start();
    await opened(sockets[0]);
    mock.timers.tick(10_000);
    await settle();
    mock.timers.tick(0);
    assert.equal(sockets[0].closedWith, 4900);
    assert.equal(sockets.length, 2);
  });
});

describe("a lost socket", () => {
  it("is replaced at once the first time, with the resume secret, and bound again", async () => {
    const { connection, sockets } = scene();
    connection.start();
    await opened(sockets[0]);
    sockets[0].cut(1006);
    mock.timers.tick(0);
    await opened(sockets[1]);
    assert.equal(sockets[1].frames[0].data.resume, "secret-1");
    assert.deepEqual(sockets[1].types(), ["hello", "session-bind"]);
    assert.equal(connection.state, "live");
  });

  it("in the middle of its opening is replaced once", async () => {
    const { connection, sockets } = scene({});
    connection.start();
    await opened(sockets[0]);
    sockets[0].cut(1006);
    await settle();
    mock.timers.tick(0);
    assert.equal(sockets.length, 2);
    mock.timers.tick(2_000);
    assert.equal(sockets.length, 2);
  });

  it("is tried again later and later", async () => {
    const { connection, sockets, states } = scene();
    connection.start();
    sockets[0].cut(1006);
    mock.timers.tick(0);
    sockets[1].cut(1006);
    const pause = states.at(-1).retryInMs;
    assert.ok(pause >= 500 && pause <= 1_000);
    mock.timers.tick(400);
    assert.equal(sockets.length, 2);
    mock.timers.tick(600);
    assert.equal(sockets.length, 3);
  });

  it("is tried at once when the network or the person comes back", () => {
    const { connection, sockets, life } = scene();
    connection.start();
    sockets[0].cut(1006);
    mock.timers.tick(0);
    sockets[1].cut(1006);
    life.wake();
    assert.equal(sockets.length, 3);
  });

  it("fails the requests that waited for it", async () => {
    const { connection, sockets } = scene();
    connection.start();
    await opened(sockets[0]);
    const request = connection.request("something", {});
    sockets[0].cut(1006);
    await assert.rejects(request, /lost/);
  });

  it("that went silent is found by a ping when the page wakes", async () => {
    const { connection, sockets, life } = scene();
    connection.start();
    await opened(sockets[0]);
    life.wake();
    assert.equal(sockets[0].types().at(-1), "ping");
    mock.timers.tick(5_000);
    assert.equal(sockets[0].closedWith, 4900);
    mock.timers.tick(0);
    assert.equal(sockets.length, 2);
  });

  it("a pong in time keeps it", async () => {
    const { connection, sockets, life } = scene();
    connection.start();
    await opened(sockets[0]);
    life.wake();
    sockets[0].say({ type: "pong", data: { t: 0 } });
    mock.timers.tick(5_000);
    assert.equal(sockets[0].closedWith, undefined);
  });

  it("closes when the page is put away whole, and opens when it is shown again", async () => {
    const { connection, sockets, life } = scene();
    connection.start();
    await opened(sockets[0]);
    life.sleep();
    assert.equal(sockets[0].closedWith, 1000);
    life.wake();
    assert.equal(sockets.length, 2);
  });
});

describe("close codes", () => {
  for (const code of [4001, 4003]) {
    it(`${code} stops, says so, and listens to nothing; start tries again`, () => {
      const { connection, sockets, states, life } = scene();
      connection.start();
      sockets[0].cut(code);
      mock.timers.tick(120_000);
      assert.equal(sockets.length, 1);
      assert.equal(states.at(-1).state, "closed");
      assert.ok(states.at(-1).problem);
      assert.equal(life.wake, undefined);
      connection.start();
      assert.equal(sockets.length, 2);
    });
  }

  it("1012: back soon, spread over a second", () => {
    const { connection, sockets, states } = scene();
    connection.start();
    sockets[0].cut(1012);
    assert.ok(states.at(-1).retryInMs < 1_000);
  });

  for (const code of [1008, 1009, 1013]) {
    it(`${code}: not before five seconds`, () => {
      const { connection, sockets, states } = scene();
      connection.start();
      sockets[0].cut(code);
      assert.ok(states.at(-1).retryInMs >= 5_000);
    });
  }

  it("1008 three times in a row stops", () => {
    const { connection, sockets } = scene();
    connection.start();
    for (let i = 0; i < 3; i++) {
      sockets[i].cut(1008);
      mock.timers.tick(30_000);
    }
    assert.equal(connection.state, "closed");
    assert.equal(sockets.length, 3);
  });
});

describe("frames", () => {
  it("what is no frame changes nothing; an error without a request is told", async () => {
    const { connection, sockets } = scene();
    const errors = [];
    connection.addEventListener("bridge-error", ({ detail }) => errors.push(detail.message));
    connection.start();
    await opened(sockets[0]);
    for (const text of ["", "[]", "{", "null", '{"type":1}']) sockets[0].say(text);
    sockets[0].say({ type: "error", data: { errorCode: 400, errorMessage: "bad frame" } });
    assert.deepEqual(errors, ["bad frame"]);
    assert.equal(connection.state, "live");
  });
});

describe("sessions and tokens", () => {
  it("a fresh token goes through session-bind, and is used by the next hello", async () => {
    const { connection, sockets } = scene();
    connection.start();
    await opened(sockets[0]);
    await connection.bind("s_1", "token-2");
    assert.deepEqual(sockets[0].frames.at(-1).data, { sessionId: "s_1", token: "token-2" });
    sockets[0].cut(1006);
    mock.timers.tick(0);
    await opened(sockets[1]);
    assert.equal(sockets[1].frames[0].data.token, "token-2");
  });

  it("a refused switch keeps the session that was", async () => {
    const { connection, sockets } = scene();
    connection.start();
    await opened(sockets[0]);
    sockets[0].answers["session-bind"] = { errorCode: 403, errorMessage: "not yours" };
    await assert.rejects(connection.bind("s_2"), /not yours/);
    assert.equal(connection.sessionId, "s_1");
  });
});

describe("the attachment", () => {
  function attached(answers) {
    const clock = new Clock();
    const browser = new ScriptedBrowser(clock);
    const choices = new Choices(null);
    const tools = new ToolBox(clock.after);
    const spec = { name: "add", description: "", paramsSchema: {} };
    tools.add({ spec, run: () => "done" });
    const parts = scene(answers);
    const presence = new Presence(browser, choices, (type, data) => parts.connection.notify(type, data));
    const attachment = new Attachment(parts.connection, tools, presence);
    return { ...parts, browser, choices, tools, attachment };
  }
  const count = (socket, type) => socket.types().filter((t) => t === type).length;

  it("registers when live, never before, and again on every fresh socket", async () => {
    const { connection, sockets, attachment } = attached();
    attachment.attach();
    connection.start();
    await opened(sockets[0]);
    assert.deepEqual(sockets[0].types(), ["hello", "session-bind", "client-tool-register", "client-state"]);
    sockets[0].cut(1006);
    mock.timers.tick(0);
    await opened(sockets[1]);
    assert.deepEqual(sockets[1].types(), ["hello", "session-bind", "client-tool-register", "client-state"]);
  });

  it("does not register on a socket that is not bound", async () => {
    const { connection, sockets, attachment } = attached({
      ...WELCOMING,
      "session-bind": { errorCode: 403, errorMessage: "no" },
    });
    attachment.attach();
    connection.start();
    await opened(sockets[0]);
    assert.deepEqual(sockets[0].types(), ["hello", "session-bind"]);
  });

  it("attached twice, an invoke runs and answers once; detached, nothing listens", async () => {
    const { connection, sockets, attachment, browser } = attached();
    attachment.attach();
    attachment.attach();
    connection.start();
    await opened(sockets[0]);
    sockets[0].say({ type: "client-tool-invoke", data: { correlationId: "c", name: "add", budgetMs: 1_000 } });
    await settle();
    assert.equal(count(sockets[0], "client-tool-register"), 1);
    assert.equal(count(sockets[0], "client-tool-result"), 1);
    attachment.detach();
    attachment.detach();
    await settle();
    assert.equal(count(sockets[0], "client-tool-unregister"), 1);
    assert.equal(browser.listeners, 0);
    sockets[0].say({ type: "client-tool-invoke", data: { correlationId: "d", name: "add", budgetMs: 1_000 } });
    await settle();
    assert.equal(count(sockets[0], "client-tool-result"), 1);
  });

  it("attaches to a connection that is live already", async () => {
    const { connection, sockets, attachment } = attached();
    connection.start();
    await opened(sockets[0]);
    attachment.attach();
    await settle();
    assert.equal(count(sockets[0], "client-tool-register"), 1);
  });

  it("a switched session gets the tools anew; a refreshed token does not", async () => {
    const { connection, sockets, attachment } = attached();
    attachment.attach();
    connection.start();
    await opened(sockets[0]);
    await connection.bind("s_2");
    assert.equal(count(sockets[0], "client-tool-register"), 2);
    await connection.bind("s_2", "token-2");
    assert.equal(count(sockets[0], "client-tool-register"), 2);
  });

  it("tells the page's state on every change, and only on a change", async () => {
    const { connection, sockets, attachment, browser, choices } = attached();
    attachment.attach();
    connection.start();
    await opened(sockets[0]);
    choices.sharing = "off";
    await settle();
    browser.setHidden(true);
    await settle();
    browser.setHidden(true);
    await settle();
    browser.setPermission("denied");
    await settle();
    const told = sockets[0].frames.filter((f) => f.type === "client-state").map((f) => f.data);
    const first = { visibility: "visible", focused: true, permission: "granted", sharing: "on", precision: "precise" };
    assert.deepEqual(told, [
      first,
      { ...first, sharing: "off" },
      { ...first, sharing: "off", visibility: "hidden" },
      { ...first, sharing: "off", visibility: "hidden", permission: "denied" },
    ]);
  });

  it("tells nothing when it closes while the permission is still being asked", async () => {
    const clock = new Clock();
    const said = [];
    const presence = new Presence(new ScriptedBrowser(clock), new Choices(null), (type) => said.push(type));
    presence.open();
    presence.close();
    await settle();
    assert.deepEqual(said, []);
    presence.open();
    await settle();
    assert.deepEqual(said, ["client-state"]);
  });

  it("a tool removed while there was no socket is not taken back on the next", async () => {
    const { connection, sockets, attachment, tools } = attached();
    attachment.attach();
    connection.start();
    await opened(sockets[0]);
    sockets[0].cut(1006);
    tools.remove("add");
    mock.timers.tick(0);
    await opened(sockets[1]);
    assert.deepEqual(sockets[1].types(), ["hello", "session-bind", "client-state"]);
  });

  it("a tool added or removed later is registered or taken back", async () => {
    const { connection, sockets, attachment, tools } = attached();
    attachment.attach();
    connection.start();
    await opened(sockets[0]);
    tools.add({ spec: { name: "more", description: "", paramsSchema: {} }, run: () => 1 });
    assert.deepEqual(sockets[0].frames.at(-1).data.tools.map((t) => t.name), ["add", "more"]);
    tools.remove("add");
    const unregister = sockets[0].frames.filter((f) => f.type === "client-tool-unregister");
    assert.deepEqual(unregister.map((f) => f.data), [{ names: ["add"] }]);
  });
});
