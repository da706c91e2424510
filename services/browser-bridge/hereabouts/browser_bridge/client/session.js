/**
 * Joins a page's tools to its connection: registered as soon as the connection is live (an unbound socket would be
 * refused), again on every fresh socket, and taken back on detach. The tools outlive it: another session, or another
 * connection, attaches the same ones.
 *
 * @typedef {import("./connection.js").Connection} Connection
 * @typedef {import("./presence.js").Presence} Presence
 * @typedef {import("./tools.js").ToolBox} ToolBox
 */

export class Attachment {
  #connection;
  #tools;
  #presence;
  /** @type {AbortController | null} */
  #listening = null;
  /** What the bridge has of us on this socket. @type {Set<string>} */
  #registered = new Set();

  /**
   * @param {Connection} connection
   * @param {ToolBox} tools
   * @param {Presence} presence
   */
  constructor(connection, tools, presence) {
    this.#connection = connection;
    this.#tools = tools;
    this.#presence = presence;
  }

  /** Begin. Attaching twice is attaching once. */
  attach() {
    if (this.#listening) return;
    this.#listening = new AbortController();
    const { signal } = this.#listening;
    this.#connection.addEventListener("state", () => this.#onState(), { signal });
    this.#connection.addEventListener(
      "frame",
      (event) => this.#onFrame(/** @type {CustomEvent<import("./protocol.js").Frame>} */ (event).detail),
      { signal },
    );
    this.#tools.addEventListener("tools", () => this.#register(), { signal });
    this.#onState();
  }

  /** End: the tools are taken back, and nothing of this listens any more. */
  detach() {
    if (!this.#listening) return;
    this.#listening.abort();
    this.#listening = null;
    if (this.#connection.state === "live" && this.#registered.size > 0) {
      this.#ask("client-tool-unregister", { names: [...this.#registered] });
    }
    this.#lose();
  }

  #onState() {
    if (this.#connection.state !== "live") {
      this.#lose();
      return;
    }
    this.#registered.clear();
    this.#register();
    this.#presence.open();
    this.#tools.open({
      notify: (type, data) => this.#connection.notify(type, data),
      request: (type, data) => this.#connection.request(type, data),
    });
  }

  #lose() {
    this.#presence.close();
    this.#tools.close();
  }

  #register() {
    if (this.#connection.state !== "live") return;
    const specs = this.#tools.specs;
    const names = new Set(specs.map((spec) => spec.name));
    const gone = [...this.#registered].filter((name) => !names.has(name));
    if (gone.length > 0) this.#ask("client-tool-unregister", { names: gone });
    if (specs.length > 0) this.#ask("client-tool-register", { tools: specs });
    this.#registered = names;
  }

  /**
   * @param {string} type
   * @param {object} data
   */
  #ask(type, data) {
    this.#connection.request(type, data).catch((error) => {
      // A lost socket registers anew; a refusal is the page author's to know.
      if (error.name === "BridgeError") this.#connection.dispatchEvent(new CustomEvent("bridge-error", { detail: error }));
    });
  }

  /** @param {import("./protocol.js").Frame} frame */
  #onFrame({ type, data }) {
    if (type === "client-tool-invoke") this.#tools.invoke(data);
    if (type === "client-tool-cancel") this.#tools.cancel(data);
  }
}
