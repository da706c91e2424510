/**
 * The tools of a page: takes invokes and cancels, runs each correlation id once, and sees that its answer arrives, also
 * when the socket is cut in between. Knows no socket: whoever is connected hands in a channel.
 *
 * @typedef {import("./protocol.js").Invoke} Invoke
 * @typedef {import("./protocol.js").ProgressState} ProgressState
 *
 * @typedef {object} Timings
 * @property {number} clockMs  the page's wall clock when the answer was made
 * @property {{name: string, startMs: number, endMs: number}[]} phases  milliseconds from the receipt of the invoke
 *
 * @typedef {object} Ask  what a tool is told of one invoke, and can say while it works
 * @property {string} correlationId
 * @property {number} budgetMs
 * @property {boolean} mayPrompt
 * @property {"no" | "user"} wait
 * @property {number} waitMs
 * @property {string} [purpose]
 * @property {AbortSignal} signal  aborted when the caller no longer wants the answer
 * @property {(state: ProgressState, prompt?: string) => void} progress
 * @property {(status: string) => void} late  what became of it after PENDING was answered; a status, nothing more
 * @property {(timings: Timings) => void} measured
 *
 * @typedef {object} Tool
 * @property {import("./protocol.js").ToolSpec} spec
 * @property {(params: Record<string, any>, ask: Ask) => any} run  the result, or a promise of it; JSON
 * @property {(result: any) => any} [atSending]  the result as it leaves, for fields that change while it waits
 *
 * @typedef {object} Channel  a live, bound connection
 * @property {(type: string, data: object) => void} notify
 * @property {(type: string, data: object) => Promise<any>} request
 *
 * @typedef {object} CallEvent  detail of the event `call`, for a page that shows what happens
 * @property {"asked" | "progress" | "answered" | "late" | "cancelled"} step
 * @property {string} correlationId
 * @property {string} tool
 * @property {string} [purpose]
 * @property {boolean} [mayPrompt]
 * @property {ProgressState} [state]
 * @property {string} [prompt]
 * @property {any} [result]
 * @property {string} [error]
 * @property {string} [status]
 *
 * @typedef {object} Run  one correlation id
 * @property {Invoke} invoke
 * @property {"running" | "answered" | "cancelled"} state
 * @property {Invoke | null} escalation  the same ask, come again with leave to prompt
 * @property {AbortController} abort
 * @property {{state: ProgressState, prompt?: string} | null} progress  the last that was said of it
 * @property {any} result
 * @property {string | null} error
 * @property {Timings | null} timings
 * @property {boolean} delivered  the bridge has acknowledged the answer
 */
import { MAX_RESULT_BYTES, RESULT_MEMORY_MS, byteLength, parseInvoke } from "./protocol.js";

/** A tool's own words about its failure: enough for a developer, not a stack. */
const MAX_ERROR_CHARS = 500;

/** Late statuses that wait for a socket. A page that is cut off for long has nothing to tell of most of them. */
const MAX_UNSAID = 100;

/** Fires `tools` when the set of tools changes, and `call` (a CustomEvent of CallEvent) as calls go on. */
export class ToolBox extends EventTarget {
  /** @type {Map<string, Tool>} */
  #tools = new Map();
  /** @type {Map<string, Run>} */
  #runs = new Map();
  /** @type {{correlationId: string, status: string}[]} */
  #unsaid = [];
  /** @type {Channel | null} */
  #channel = null;
  #after;

  /** @param {(ms: number, due: () => void) => unknown} after  a timer */
  constructor(after) {
    super();
    this.#after = after;
  }

  /** What is registered at the bridge. */
  get specs() {
    return [...this.#tools.values()].map((tool) => tool.spec);
  }

  /**
   * Add a tool, or replace the one of the same name.
   *
   * @param {Tool} tool
   */
  add(tool) {
    if (this.#tools.get(tool.spec.name) === tool) return;
    this.#tools.set(tool.spec.name, tool);
    this.dispatchEvent(new Event("tools"));
  }

  /** @param {string} name */
  remove(name) {
    if (this.#tools.delete(name)) this.dispatchEvent(new Event("tools"));
  }

  /**
   * Speak through this channel from now on. Answers that no bridge has acknowledged are sent again, and so is how far
   * the open calls are: another process may hold the socket now, and its clock must stand still as the last one's did.
   *
   * @param {Channel} channel
   */
  open(channel) {
    this.#channel = channel;
    for (const run of this.#runs.values()) {
      if (run.state === "running" && run.progress) this.#sayProgress(run, run.progress);
      if (run.state === "answered" && !run.delivered) this.#deliver(run);
    }
    for (const late of this.#unsaid.splice(0)) channel.notify("client-tool-late-result", late);
  }

  /** The channel is gone. Running calls go on; their answers wait for the next one. */
  close() {
    this.#channel = null;
  }

  /** @param {any} data  of a `client-tool-invoke` */
  invoke(data) {
    const invoke = parseInvoke(data);
    if (!invoke) return;
    const run = this.#runs.get(invoke.correlationId);
    if (!run) {
      this.#start(invoke);
    } else if (run.state === "running") {
      if (invoke.mayPrompt && !run.invoke.mayPrompt) run.escalation = invoke;
    } else if (run.state === "answered") {
      if (invoke.mayPrompt && wouldPrompt(run)) this.#start(invoke);
      else this.#deliver(run);
    }
  }

  /** @param {any} data  of a `client-tool-cancel` */
  cancel(data) {
    const run = this.#runs.get(data?.correlationId);
    if (run?.state !== "running") return;
    run.state = "cancelled";
    run.abort.abort();
    this.#forgetLater(run);
    this.#emit(run.invoke, { step: "cancelled" });
  }

  /** @param {Invoke} invoke */
  #start(invoke) {
    /** @type {Run} */
    const run = {
      invoke,
      state: "running",
      escalation: null,
      abort: new AbortController(),
      progress: null,
      result: null,
      error: null,
      timings: null,
      delivered: false,
    };
    this.#runs.set(invoke.correlationId, run);
    this.#emit(invoke, { step: "asked", mayPrompt: invoke.mayPrompt });
    void this.#run(run);
  }

  /** @param {Run} run */
  async #run(run) {
    const { invoke } = run;
    const { correlationId } = invoke;
    try {
      const tool = this.#tools.get(invoke.name);
      if (!tool) throw new Error(`this page has no tool named ${invoke.name}`);
      const result = await tool.run(invoke.params, {
        correlationId,
        budgetMs: invoke.budgetMs,
        mayPrompt: invoke.mayPrompt,
        wait: invoke.wait,
        waitMs: invoke.waitMs,
        ...(invoke.purpose ? { purpose: invoke.purpose } : {}),
        signal: run.abort.signal,
        progress: (state, prompt) => {
          if (run.state !== "running") return;
          const said = { state, ...(prompt ? { prompt } : {}) };
          run.progress = said;
          this.#sayProgress(run, said);
          this.#emit(invoke, { step: "progress", ...said });
        },
        late: (status) => {
          if (this.#channel) this.#channel.notify("client-tool-late-result", { correlationId, status });
          else if (this.#unsaid.length < MAX_UNSAID) this.#unsaid.push({ correlationId, status });
          this.#emit(invoke, { step: "late", status });
        },
        measured: (timings) => {
          run.timings = timings;
        },
      });
      run.result = checked(result);
    } catch (error) {
      run.error = (error instanceof Error ? error.message : String(error)).slice(0, MAX_ERROR_CHARS);
    }
    if (run.state === "cancelled") return;
    if (run.escalation && wouldPrompt(run)) {
      this.#start(run.escalation);
      return;
    }
    run.state = "answered";
    this.#forgetLater(run);
    this.#emit(invoke, { step: "answered", ...(run.error === null ? { result: run.result } : { error: run.error }) });
    this.#deliver(run);
  }

  /**
   * @param {Run} run
   * @param {{state: ProgressState, prompt?: string}} said
   */
  #sayProgress(run, said) {
    this.#channel?.notify("client-tool-progress", { correlationId: run.invoke.correlationId, ...said });
  }

  /** @param {Run} run */
  #deliver(run) {
    if (!this.#channel) return;
    const tool = this.#tools.get(run.invoke.name);
    const sent = this.#channel.request("client-tool-result", {
      correlationId: run.invoke.correlationId,
      result: run.error === null && tool?.atSending ? tool.atSending(run.result) : run.result,
      error: run.error,
      ...(run.timings ? { timings: run.timings } : {}),
    });
    sent.then(
      () => {
        run.delivered = true;
      },
      () => {}, // not acknowledged: sent again through the next channel
    );
  }

  /** @param {Run} run */
  #forgetLater(run) {
    this.#after(RESULT_MEMORY_MS, () => {
      const id = run.invoke.correlationId;
      if (this.#runs.get(id) === run) this.#runs.delete(id);
    });
  }

  /**
   * @param {Invoke} invoke
   * @param {Omit<CallEvent, "correlationId" | "tool">} step
   */
  #emit({ correlationId, name, purpose }, step) {
    /** @type {CallEvent} */
    const detail = { correlationId, tool: name, ...(purpose ? { purpose } : {}), ...step };
    this.dispatchEvent(new CustomEvent("call", { detail }));
  }
}

/**
 * Whether the run ended because only a prompt could have answered: then the same ask may come again with leave to
 * prompt, and is no duplicate.
 *
 * @param {Run} run
 */
function wouldPrompt(run) {
  return !run.invoke.mayPrompt && run.result?.reason === "would_prompt";
}

/**
 * A result as it will be read on the other side.
 *
 * @param {any} result
 * @throws {Error} it is no JSON, or too large for one frame
 */
function checked(result) {
  const text = JSON.stringify(result ?? null);
  if (text === undefined) throw new Error("the tool's result cannot be written as JSON");
  const bytes = byteLength(text);
  if (bytes > MAX_RESULT_BYTES) {
    throw new Error(`the tool's result has ${bytes} bytes; at most ${MAX_RESULT_BYTES} can be sent`);
  }
  return JSON.parse(text);
}
