/** The chat page: comes in by its link, connects, shows what is asked and answered, and lets the person choose. */

import { realBrowser } from "../client/browser.js";
import { choices, connect } from "../client/index.js";
import { Feed } from "./feed.js";
import { currentVisit, exchange, forgetVisit, takeCode } from "./visit.js";
import { connectionText, permissionText } from "./words.js";

const TITLE = document.title;

const GATES = {
  missing: {
    title: "Open this page by its link",
    text: "The link your agent or its makers gave you lets this page in. Go back to the conversation and open it there.",
    retry: false,
  },
  used: {
    title: "This link has been used",
    text: "Each link works once and for a short time. Go back to the conversation and ask for a new one.",
    retry: false,
  },
  unreachable: {
    title: "The service cannot be reached",
    text: "Your link is still good. Check your connection, then try again.",
    retry: true,
  },
  ended: {
    title: "You are no longer let in",
    text: "The link that opened this page has run out. Go back to the conversation and ask for a new one.",
    retry: false,
  },
  stopped: {
    title: "The connection has ended",
    text: "The service has stopped talking to this page. Nothing is shared meanwhile.",
    retry: true,
  },
};

/** @param {string} id */
function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}

const feed = new Feed(byId("feed"), byId("empty"));
/** @type {Awaited<ReturnType<typeof connect>> | null} */
let here = null;

/** @param {string | null} code */
async function enter(code) {
  byId("gate").hidden = true;
  byId("room").hidden = false;
  if (code) {
    const exchanged = await exchange(code);
    if ("visit" in exchanged) return join(exchanged.visit);
    if ("unreachable" in exchanged) return bar("unreachable", () => void enter(code));
  }
  const visit = currentVisit(); // a reload, or the same link once more in this tab
  return visit ? join(visit) : bar(code ? "used" : "missing");
}

/** @param {import("./visit.js").Visit} visit */
async function join({ socketUrl, token, sessionId, user }) {
  here?.close();
  byId("user").textContent = user ? `for ${user}` : "";
  byId("user").hidden = !user;
  const mine = await connect({ url: socketUrl, token, sessionId, onState: ({ detail }) => onState(detail) });
  here = mine;
  mine.tools.addEventListener("call", (event) => {
    feed.show(/** @type {CustomEvent<import("../client/tools.js").CallEvent>} */ (event).detail);
    document.title = feed.isWaiting ? `Your agent asks · ${TITLE}` : TITLE;
  });
}

/** @param {import("../client/connection.js").StateEvent} event */
function onState(event) {
  showConnection(event.state, connectionText(event));
  if (event.state === "closed" && event.problem) {
    if (event.refused) {
      forgetVisit();
      bar("ended");
    } else {
      bar("stopped", () => {
        byId("gate").hidden = true;
        byId("room").hidden = false;
        here?.connection.start();
      });
    }
  } else if (event.state === "open" && event.problem) {
    bar("ended");
  }
}

/**
 * @param {string} state
 * @param {string} text
 */
function showConnection(state, text) {
  byId("connection").dataset["state"] = state;
  if (byId("connection-text").textContent !== text) byId("connection-text").textContent = text;
}

/**
 * Show why the person is not in, and what they can do.
 *
 * @param {keyof typeof GATES} name
 * @param {() => void} [again]
 */
function bar(name, again) {
  const { title, text, retry } = GATES[name];
  byId("gate-title").textContent = title;
  byId("gate-text").textContent = text;
  byId("gate-button").hidden = !retry;
  byId("gate-button").onclick = again ?? null;
  byId("room").hidden = true;
  byId("gate").hidden = false;
  byId("gate-title").focus();
  if (name !== "stopped") showConnection("closed", "Not connected");
}

function showChoices() {
  const { sharing, precision } = choices();
  const [share, approximate] = switches();
  share.checked = sharing === "on";
  approximate.checked = precision === "approximate";
  byId("sharing-note").textContent =
    sharing === "on" ? "When an agent asks, and your browser allows it." : "Off. Agents are told that you do not share.";
  byId("approximate-note").textContent =
    precision === "approximate" ? "An area about 2 km wide, never the spot." : "Off. Your position, as exact as it is.";
}

function switches() {
  return /** @type {[HTMLInputElement, HTMLInputElement]} */ ([byId("sharing"), byId("approximate")]);
}

const [share, approximate] = switches();
share.addEventListener("change", () => (choices().sharing = share.checked ? "on" : "off"));
approximate.addEventListener("change", () => (choices().precision = approximate.checked ? "approximate" : "precise"));
choices().addEventListener("change", showChoices);
showChoices();

const browser = realBrowser();
async function showPermission() {
  byId("permission").textContent = permissionText(await browser.queryPermission());
}
browser.watch(() => void showPermission());
void showPermission();

window.addEventListener("hashchange", () => {
  const code = takeCode();
  if (code) void enter(code);
});
void enter(takeCode());
