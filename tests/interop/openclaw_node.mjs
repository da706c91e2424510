// The real GatewayClient of OpenClaw, as a node that answers location.get in one of the dialects that nodes in the
// field speak, or as an operator. Prints one JSON line for everything that happens; takes requests as JSON lines
// ({"id", "method", "params"}) on stdin, and ends when stdin does.
//
//   node openclaw_node.mjs --url ws://… --token … [--dialect ios|android|windows|linux] [--role node|operator]
//     [--identity FILE] [--reply '{"latitude":…,"longitude":…,"accuracy":…}'] [--error LOCATION_…] [--silent]
//     [--min-protocol 3] [--max-protocol 4] [--name NAME] [--scopes a,b]

import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, sign } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { GatewayClient } from "@openclaw/gateway-client";

const { values: args } = parseArgs({
  options: {
    url: { type: "string" },
    token: { type: "string", default: process.env.OPENCLAW_GATEWAY_TOKEN },
    dialect: { type: "string", default: "linux" },
    role: { type: "string", default: "node" },
    identity: { type: "string" },
    reply: { type: "string", default: '{"latitude":48.20849,"longitude":16.37208,"accuracy":12.5}' },
    error: { type: "string" },
    silent: { type: "boolean", default: false },
    name: { type: "string" },
    scopes: { type: "string" },
    "min-protocol": { type: "string" },
    "max-protocol": { type: "string" },
  },
});

const DIALECTS = {
  ios: { clientName: "openclaw-ios", platform: "iOS", deviceFamily: "iPhone", caps: ["location"] },
  android: { clientName: "openclaw-android", platform: "android", deviceFamily: "Android", caps: undefined },
  windows: { clientName: "node-host", platform: "windows", deviceFamily: "Windows", caps: ["location"] },
  linux: { clientName: "node-host", platform: "linux", deviceFamily: undefined, caps: ["location"] },
};
const dialect = DIALECTS[args.dialect];
if (!dialect || !args.url) {
  console.error("usage: openclaw_node.mjs --url URL [--token TOKEN] [--dialect ios|android|windows|linux] …");
  process.exit(2);
}

/** Print one thing that happened. */
function tell(event, fields = {}) {
  process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);
}

/** A device key from a file, made on first use; without a file a new one for this run. */
function loadIdentity(file) {
  const privateKeyPem =
    file && existsSync(file)
      ? readFileSync(file, "utf8")
      : generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" });
  if (file && !existsSync(file)) writeFileSync(file, privateKeyPem, { mode: 0o600 });
  const publicKey = createPublicKey(createPrivateKey(privateKeyPem));
  const publicKeyPem = publicKey.export({ type: "spki", format: "pem" });
  const deviceId = createHash("sha256").update(rawPublicKey(publicKeyPem)).digest("hex");
  return { deviceId, privateKeyPem, publicKeyPem };
}

/** The 32 bytes at the end of an Ed25519 SubjectPublicKeyInfo. */
function rawPublicKey(pem) {
  return createPublicKey(pem).export({ type: "spki", format: "der" }).subarray(-32);
}

/** The scripted position, as the dialect spells it. */
function payloadOf({ latitude, longitude, accuracy, timestampMs = Date.now(), ...rest }) {
  if (args.dialect === "windows") return { latitude, longitude, accuracy, timestamp: timestampMs, ...rest };
  return {
    lat: latitude,
    lon: longitude,
    accuracyMeters: accuracy,
    altitudeMeters: null,
    timestamp: new Date(timestampMs).toISOString(),
    isPrecise: true,
    source: args.dialect === "linux" ? "unknown" : "gps",
    ...rest,
  };
}

/** The scripted failure, as the dialect hides its stable code. */
function errorOf(code) {
  const message = `${code}: scripted`;
  switch (args.dialect) {
    case "ios":
      return { code: "UNAVAILABLE", message };
    case "linux":
      return { code: "INVALID_REQUEST", message: `Error: ${message}` };
    case "windows":
      return { message };
    default:
      return { code, message };
  }
}

/** The answer to one node.invoke.request. */
function resultOf({ id, nodeId }) {
  if (args.error) return { id, nodeId, ok: false, error: errorOf(args.error) };
  const payload = payloadOf(JSON.parse(args.reply));
  if (args.dialect === "windows") return { id, nodeId, ok: true, payload, error: null };
  if (args.dialect === "android") return { id, nodeId, ok: true, payload };
  return { id, nodeId, ok: true, payloadJSON: JSON.stringify(payload) };
}

/** Answer an invoke and tell how the gateway acknowledged it. */
async function answer(request) {
  tell("invoke", { ...request, params: request.paramsJSON ? JSON.parse(request.paramsJSON) : null });
  if (args.silent) return;
  try {
    tell("ack", { id: request.id, payload: await client.request("node.invoke.result", resultOf(request)) });
  } catch (error) {
    tell("ack-error", { id: request.id, code: error.gatewayCode ?? error.code, message: error.message });
  }
}

const identity = loadIdentity(args.identity);
const isNode = args.role === "node";
let deviceToken = null;

const client = new GatewayClient({
  url: args.url,
  token: args.token,
  role: args.role,
  scopes: args.scopes ? args.scopes.split(",") : isNode ? [] : ["operator.read", "operator.write", "operator.pairing"],
  clientName: isNode ? dialect.clientName : "cli",
  clientDisplayName: args.name ?? `interop ${args.dialect}`,
  clientVersion: "2026.9.1",
  platform: dialect.platform,
  deviceFamily: dialect.deviceFamily,
  mode: isNode ? "node" : "cli",
  caps: isNode ? dialect.caps : undefined,
  commands: isNode ? ["location.get"] : undefined,
  deviceIdentity: identity,
  minProtocol: args["min-protocol"] ? Number(args["min-protocol"]) : undefined,
  maxProtocol: args["max-protocol"] ? Number(args["max-protocol"]) : undefined,
  hostDeps: {
    signDevicePayload: (pem, payload) => sign(null, Buffer.from(payload, "utf8"), pem).toString("base64url"),
    publicKeyRawBase64UrlFromPem: (pem) => rawPublicKey(pem).toString("base64url"),
    loadDeviceAuthToken: () => deviceToken,
    storeDeviceAuthToken: ({ token, scopes }) => {
      deviceToken = { token, scopes };
    },
    clearDeviceAuthToken: () => {
      deviceToken = null;
    },
    logDebug: (message) => tell("debug", { message }),
    logError: (message) => tell("log-error", { message }),
  },
  onHelloOk: (hello) =>
    tell("connected", {
      deviceId: identity.deviceId,
      protocol: hello.protocol,
      connId: hello.server.connId,
      role: hello.auth.role,
      scopes: hello.auth.scopes,
      hasDeviceToken: Boolean(hello.auth.deviceToken),
      policy: hello.policy,
    }),
  onConnectError: (error) => {
    const details = error.details ?? {};
    const event = details.code === "PAIRING_REQUIRED" ? "pairing-required" : "connect-error";
    tell(event, { deviceId: identity.deviceId, code: error.gatewayCode ?? null, message: error.message, details });
  },
  onReconnectPaused: (info) => tell("paused", info),
  onClose: (code, reason, info) => tell("closed", { code, reason, phase: info?.phase ?? null }),
  onEvent: ({ event, payload }) => {
    if (event === "node.invoke.request") void answer(payload);
    else if (event === "node.invoke.cancel") tell("cancelled", payload);
    else if (event === "tick") tell("tick", payload);
    else tell("gateway-event", { name: event, payload });
  },
});

tell("started", { deviceId: identity.deviceId, node: process.version });
client.start();

const lines = createInterface({ input: process.stdin });
lines.on("line", async (line) => {
  const { id = null, method, params } = JSON.parse(line);
  try {
    tell("response", { id, ok: true, payload: await client.request(method, params) });
  } catch (error) {
    const { gatewayCode = null, message, details = null } = error;
    tell("response", { id, ok: false, code: gatewayCode, message, details });
  }
});
lines.on("close", () => {
  client.stop();
  tell("stopped");
});
