/**
 * Hereabouts in a page:
 *
 *     import { connect } from "/client/index.js";
 *     const here = await connect({ url: "/ws", token, sessionId });
 *     here.tools.addEventListener("call", ({ detail }) => console.log(detail.step, detail.purpose));
 *     here.choices.sharing = "off"; // whenever the person wishes
 */
import { realBrowser } from "./browser.js";
import { Choices, openStorage } from "./choices.js";
import { Connection, documentLifecycle } from "./connection.js";
import { claimClientId, isReload, randomId } from "./identity.js";
import { LocationTool } from "./location.js";
import { Presence } from "./presence.js";
import { Attachment } from "./session.js";
import { ToolBox } from "./tools.js";

export { Choices, Connection, LocationTool, ToolBox };

/** A title is a label on someone's list of tabs, not a document. */
const MAX_PAGE_CHARS = 80;

/** One browser, and one set of choices, per page: whoever connects shares them, and with them the one prompt. */
const browser = realBrowser();
/** @type {Choices | null} */
let choicesOfPage = null;
/** @type {LocationTool | null} */
let toolOfPage = null;
/** @type {Promise<string> | null} */
let clientIdOfPage = null;

/** What the person chose on this browser. */
export function choices() {
  return (choicesOfPage ??= Choices.ofThisBrowser());
}

/** The page's one location tool: it survives session switches, so that a prompt once opened is never opened again. */
export function locationTool() {
  return (toolOfPage ??= new LocationTool({ browser, choices: choices() }));
}

/** This tab's id, the same for every connection of the page. */
function clientId() {
  return (clientIdOfPage ??= claimClientId({
    storage: openStorage("sessionStorage"),
    locks: navigator.locks,
    isReload: isReload(),
    newId: randomId,
  }));
}

/**
 * Connect the page to the bridge and offer its tools to the session's agent.
 *
 * @param {object} options
 * @param {string} options.url  of the bridge's socket; may be relative to the page
 * @param {import("./connection.js").TokenSource} options.token
 * @param {string} options.sessionId
 * @param {import("./tools.js").Tool[]} [options.tools]  default: the page's location tool
 * @param {(event: CustomEvent<import("./connection.js").StateEvent>) => void} [options.onState]
 */
export async function connect({ url, token, sessionId, tools = [locationTool()], onState }) {
  const toolBox = new ToolBox(browser.after);
  for (const tool of tools) toolBox.add(tool);
  /** @type {Connection} */
  const connection = new Connection({
    url: socketUrl(url),
    clientId: await clientId(),
    token,
    sessionId,
    describe: describePage,
    lifecycle: documentLifecycle,
  });
  const presence = new Presence(browser, choices(), (type, data) => connection.notify(type, data));
  const attachment = new Attachment(connection, toolBox, presence);
  if (onState) connection.addEventListener("state", /** @type {EventListener} */ (onState));
  attachment.attach();
  connection.start();
  return {
    connection,
    tools: toolBox,
    choices: choices(),
    attachment,
    /** Take the tools back and close the socket. */
    close() {
      attachment.detach();
      connection.stop();
    },
  };

  async function describePage() {
    const { precision: _later, ...state } = await presence.state(); // `client-state` tells the precision
    return {
      page: document.title.slice(0, MAX_PAGE_CHARS),
      ...state,
      timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
      languages: [...navigator.languages],
    };
  }
}

/**
 * @param {string} url
 */
function socketUrl(url) {
  const full = new URL(url, location.href);
  full.protocol = full.protocol.replace(/^http/, "ws");
  return full.href;
}
