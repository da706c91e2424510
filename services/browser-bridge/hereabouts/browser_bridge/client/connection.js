/**
 * One connection to the bridge that comes back by itself: hello first, then bound to the session, then live.
 *
 * Each fresh socket goes through the same opening: `hello` with the token (never in the URL, where logs would keep it)
 * and the resume secret of the socket before, then `session-bind`. The secret is kept in memory only: a reloaded page
 * has lost its running calls and must not inherit them.
 *
 * @typedef {import("./protocol.js").Frame} Frame
 * @typedef {"connecting" | "open" | "live" | "closed"} ConnectionState
 *   open: known to the bridge, not bound to a session; closed: stopped, will not try again by itself
 *
 * @typedef {object} StateEvent  detail of the event `state`
 * @property {ConnectionState} state
 * @property {string} [problem]  what went wrong, for a person
 * @property {boolean} [refused]  the token is not accepted: trying again with it is of no use
 * @property {number} [retryInMs]
 *
 * @typedef {string | (() => string | Promise<string>)} TokenSource
 *
 * @typedef {object} Lifecycle  when the page or the network wakes up or is put away
 * @property {(wake: () => void, sleep: () => void) => () => void} watch  returns how to stop
 */
import { pauseMs } from "./backoff.js";
import { BridgeError, Close, parseFrame } from "./protocol.js";

/** The bridge closes a socket that has not said hello within 5 s; two hops and an ack fit in twice that. */
const OPENING_MS = 10_000;

/** A request that the bridge has not answered by then will not be answered. */
const REQUEST_MS = 10_000;

/** Often enough that proxies (60 s is common) keep an idle socket. */
const PING_EVERY_MS = 25_000;

/** A live bridge answers a ping in milliseconds; on a bad mobile network in a few seconds. */
const PONG_MS = 5_000;

/** A socket that lived this long worked: the next try is the first again. */
const STABLE_MS = 5_000;

/** Refusals in a row after which trying on would only annoy the bridge. */
const MAX_REFUSALS = 3;

const TOKEN_REFUSED = "The link is no longer valid.";
const BRIDGE_REFUSED = "The service refuses this page.";
const BRIDGE_SILENT = "The service does not answer.";

/**
 * Fires `state` (CustomEvent of StateEvent), `frame` (CustomEvent of Frame: all that is no reply), and `bridge-error`
 * (CustomEvent of BridgeError: an `error` that answers no request).
 */
export class Connection extends EventTarget {
  #url;
  #clientId;
  #token;
  #sessionId;
  #describe;
  #lifecycle;
  #openSocket;
  #stopWatching = () => {};
  /** @type {WebSocket | null} */
  #socket = null;
  /** @type {ConnectionState} */
  #state = "closed";
  /** @type {string | undefined} */
  #resume;
  /** @type {Map<string, {resolve: (data: any) => void, reject: (error: Error) => void, timer: ReturnType<typeof setTimeout>}>} */
  #requests = new Map();
  #nextId = 1;
  #attempt = 0;
  #refusals = 0;
  #openedAt = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #pongTimer;

  /**
   * @param {object} parts
   * @param {string} parts.url  `ws:` or `wss:`
   * @param {string} parts.clientId
   * @param {TokenSource} parts.token  a function is asked anew for each socket
   * @param {string} parts.sessionId
   * @param {() => Promise<object>} parts.describe  what `hello` tells of the page
   * @param {Lifecycle} parts.lifecycle
   * @param {(url: string) => WebSocket} [parts.openSocket]
   */
  constructor({ url, clientId, token, sessionId, describe, lifecycle, openSocket = (to) => new WebSocket(to) }) {
    super();
    this.#url = url;
    this.#clientId = clientId;
    this.#token = token;
    this.#sessionId = sessionId;
    this.#describe = describe;
    this.#lifecycle = lifecycle;
    this.#openSocket = openSocket;
  }

  get state() {
    return this.#state;
  }

  get sessionId() {
    return this.#sessionId;
  }

  /** Connect, and stay connected. Also after `closed`. */
  start() {
    if (this.#state !== "closed") return;
    this.#stopWatching();
    this.#stopWatching = this.#lifecycle.watch(
      () => this.#wake(),
      () => this.#sleep(),
    );
    this.#attempt = 0;
    this.#refusals = 0;
    this.#connect();
  }

  /** Close for good. */
  stop() {
    this.#end();
    this.#enter({ state: "closed" });
  }

  /**
   * Switch to another session, or refresh a token that will expire.
   *
   * @param {string} sessionId
   * @param {TokenSource} [token]  absent: the one in use covers the session
   * @throws {BridgeError} 403: the token does not cover the session
   */
  async bind(sessionId, token) {
    const switches = sessionId !== this.#sessionId || this.#state !== "live";
    if (token !== undefined) this.#token = token;
    if (this.#state === "open" || this.#state === "live") {
      const given = token === undefined ? {} : { token: await this.#currentToken() };
      await this.request("session-bind", { sessionId, ...given });
      // Live anew: whoever registered tools for the session before registers them for this one.
      if (switches) this.#enter({ state: "live" });
    }
    this.#sessionId = sessionId; // also when not connected: the next socket binds to it
  }

  /**
   * Send a request and wait for its reply.
   *
   * @param {string} type
   * @param {object} data
   * @returns {Promise<any>}  the reply's data
   * @throws {BridgeError} the bridge refused it
   * @throws {Error} the socket closed first, or no reply came
   */
  request(type, data) {
    const id = String(this.#nextId++);
    return new Promise((resolve, reject) => {
      if (!this.#send({ id, type, data })) {
        reject(new Error("not connected"));
        return;
      }
      const timer = setTimeout(() => this.#requests.delete(id) && reject(new Error(BRIDGE_SILENT)), REQUEST_MS);
      this.#requests.set(id, { resolve, reject, timer });
    });
  }

  /**
   * Send what needs no reply; lost if there is no socket.
   *
   * @param {string} type
   * @param {object} data
   */
  notify(type, data) {
    this.#send({ type, data });
  }

  #connect() {
    clearTimeout(this.#timer);
    this.#enter({ state: "connecting" });
    /** @type {WebSocket} */
    let socket;
    try {
      socket = this.#openSocket(this.#url);
    } catch {
      this.#end();
      this.#enter({ state: "closed", problem: "The address of the service is not valid." });
      return;
    }
    this.#socket = socket;
    this.#openedAt = performance.now();
    this.#timer = setTimeout(() => this.#drop(Close.GIVEN_UP), OPENING_MS);
    const current = () => this.#socket === socket;
    socket.onopen = () => void this.#introduce(current);
    socket.onmessage = (event) => current() && this.#receive(event.data);
    socket.onclose = (event) => current() && this.#lost(event.code);
  }

  /** @param {() => boolean} current  whether the socket is still the one that this began with */
  async #introduce(current) {
    try {
      const [token, page] = await Promise.all([this.#currentToken(), this.#describe()]);
      if (!current()) return;
      const resume = this.#resume === undefined ? {} : { resume: this.#resume };
      const hello = await this.request("hello", { token, clientId: this.#clientId, ...resume, ...page });
      if (!current()) return;
      this.#resume = typeof hello?.resume === "string" ? hello.resume : undefined;
      this.#enter({ state: "open" });
      await this.request("session-bind", { sessionId: this.#sessionId });
      if (!current()) return;
      this.#refusals = 0;
      this.#pingLater();
      this.#enter({ state: "live" });
    } catch (error) {
      if (!current()) return; // the close says more
      if (error instanceof BridgeError && error.isPassing) {
        this.#drop(Close.TRY_LATER);
      } else if (error instanceof BridgeError && this.#state === "open") {
        // Known, but not for this session: trying again with the same token would end the same.
        this.#pingLater();
        this.#enter({ state: "open", problem: error.message, refused: true });
      } else if (error instanceof BridgeError) {
        this.#end();
        this.#enter({ state: "closed", problem: error.message || TOKEN_REFUSED, refused: true });
      } else {
        this.#drop(Close.GIVEN_UP);
      }
    }
  }

  async #currentToken() {
    return typeof this.#token === "function" ? this.#token() : this.#token;
  }

  /** @param {unknown} text */
  #receive(text) {
    clearTimeout(this.#pongTimer);
    const frame = parseFrame(text);
    if (!frame) return;
    const request = frame.replyTo === undefined ? undefined : this.#requests.get(frame.replyTo);
    if (request && frame.replyTo !== undefined) {
      this.#requests.delete(frame.replyTo);
      clearTimeout(request.timer);
      if (frame.type === "error") request.reject(bridgeError(frame));
      else request.resolve(frame.data);
    } else if (frame.type === "error") {
      this.dispatchEvent(new CustomEvent("bridge-error", { detail: bridgeError(frame) }));
    } else {
      this.dispatchEvent(new CustomEvent("frame", { detail: frame }));
    }
  }

  #pingLater() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ping(), PING_EVERY_MS);
  }

  #ping() {
    this.#send({ type: "ping", data: { t: Date.now() } });
    clearTimeout(this.#pongTimer);
    this.#pongTimer = setTimeout(() => this.#drop(Close.GIVEN_UP), PONG_MS);
    this.#pingLater();
  }

  /** The page is shown again, or the network is back: find out now, not at the next timer. */
  #wake() {
    if (this.#state === "closed") return;
    if (!this.#socket) this.#connect();
    else if (this.#state === "live" || this.#state === "open") this.#ping();
  }

  /** The page is put away in one piece and may come back as it is: a socket would not survive it. */
  #sleep() {
    if (this.#state === "closed") return;
    this.#forget(Close.NORMAL);
    this.#enter({ state: "connecting" });
  }

  /**
   * Give the socket up.
   *
   * @param {number} code  as if it had been closed with this
   */
  #drop(code) {
    this.#forget(Close.GIVEN_UP);
    this.#lost(code);
  }

  /** @param {number} code */
  #lost(code) {
    this.#forget();
    if (code === Close.TOKEN_REFUSED || code === Close.NO_HELLO) {
      const refused = code === Close.TOKEN_REFUSED;
      this.#end();
      this.#enter({ state: "closed", problem: refused ? TOKEN_REFUSED : BRIDGE_SILENT, refused });
      return;
    }
    if (code === Close.POLICY) this.#refusals += 1;
    if (this.#refusals >= MAX_REFUSALS) {
      this.#end();
      this.#enter({ state: "closed", problem: BRIDGE_REFUSED });
      return;
    }
    if (performance.now() - this.#openedAt >= STABLE_MS) this.#attempt = 0;
    const hint = code === Close.RESTART ? "restart" : busyCodes.has(code) ? "busy" : "none";
    const retryInMs = pauseMs(this.#attempt, Math.random(), hint);
    this.#attempt += 1;
    this.#timer = setTimeout(() => this.#connect(), retryInMs);
    this.#enter({ state: "connecting", retryInMs });
  }

  #end() {
    this.#stopWatching();
    this.#stopWatching = () => {};
    this.#forget(Close.NORMAL);
  }

  /**
   * Let go of the socket and all that waited for it.
   *
   * @param {number} [code]  close it with this
   */
  #forget(code) {
    clearTimeout(this.#timer);
    clearTimeout(this.#pongTimer);
    const socket = this.#socket;
    this.#socket = null;
    if (socket && code !== undefined) socket.close(code);
    for (const { reject, timer } of this.#requests.values()) {
      clearTimeout(timer);
      reject(new Error("the connection was lost"));
    }
    this.#requests.clear();
  }

  /**
   * @param {Frame} frame
   * @returns {boolean}  whether there was a socket to take it
   */
  #send(frame) {
    if (this.#socket?.readyState !== 1) return false; // WebSocket.OPEN
    this.#socket.send(JSON.stringify(frame));
    return true;
  }

  /** @param {StateEvent} detail */
  #enter(detail) {
    this.#state = detail.state;
    this.dispatchEvent(new CustomEvent("state", { detail }));
  }
}

/** @type {Set<number>} */
const busyCodes = new Set([Close.POLICY, Close.TOO_BIG, Close.TRY_LATER]);

/** @param {Frame} frame */
function bridgeError({ data }) {
  return new BridgeError(data?.errorCode ?? "error", String(data?.errorMessage ?? "The service refused the request."));
}

/** The lifecycle of this document. @type {Lifecycle} */
export const documentLifecycle = {
  watch(wake, sleep) {
    const stopping = new AbortController();
    const { signal } = stopping;
    window.addEventListener("online", wake, { signal });
    window.addEventListener("pageshow", (event) => event.persisted && wake(), { signal });
    window.addEventListener("pagehide", (event) => event.persisted && sleep(), { signal });
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && wake(), { signal });
    return () => stopping.abort();
  },
};
