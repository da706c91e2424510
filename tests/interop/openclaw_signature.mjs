// The texts that OpenClaw's own client would sign, for each line of parameters on stdin.

import { createInterface } from "node:readline";
import { buildDeviceAuthPayload, buildDeviceAuthPayloadV3 } from "@openclaw/gateway-client";

for await (const line of createInterface({ input: process.stdin })) {
  const params = JSON.parse(line);
  process.stdout.write(`${JSON.stringify({ v2: buildDeviceAuthPayload(params), v3: buildDeviceAuthPayloadV3(params) })}\n`);
}
