/**
 * What an ask of `location_get` can wish for, as agents read it and as the page takes it.
 *
 * @typedef {object} Wish
 * @property {number} accuracyM
 * @property {number | undefined} maxAgeMs  undefined: the ask did not say
 * @property {boolean} highAccuracy
 */

const DEFAULT_ACCURACY_M = 100;

/** @type {Map<unknown, number>} */
const WANTED_ACCURACY_M = new Map([
  ["coarse", 3_000],
  ["balanced", 100],
  ["precise", 25],
]);

/** Networks and Wi-Fi reach this; below it the device needs its satellite receiver. */
const HIGH_ACCURACY_BELOW_M = 100;

const DESCRIPTION =
  "Get the user's current location from their own browser or device. Call it only when the answer needs the place and " +
  "the user expects it. The user decides: the result's `status` is GRANTED (with latitude, longitude and accuracy), " +
  "DECLINED, PENDING or UNAVAILABLE. DECLINED and UNAVAILABLE: do not retry. PENDING: you may call again after a short " +
  "wait, or go on without the location. `accuracy` is a radius in metres, not a point: do not report more precision.";

const PARAMS_SCHEMA = {
  type: "object",
  additionalProperties: false,
  properties: {
    desired_accuracy: {
      anyOf: [
        { enum: ["coarse", "balanced", "precise"] },
        { type: "number", exclusiveMinimum: 0, maximum: 1_000_000 },
      ],
      description:
        "how exact the position should be: coarse (3,000 m), balanced (100 m), precise (25 m), or metres. A wish, not a gate",
    },
    max_age_ms: {
      type: "integer",
      minimum: 0,
      maximum: 86_400_000,
      description:
        "how old the position may be, in milliseconds; 0 accepts only a new one. Left out: a new one is looked for, and one up to 15,000 ms old is accepted",
    },
  },
};

/** @type {import("./protocol.js").ToolSpec} */
export const LOCATION_GET = { name: "location_get", description: DESCRIPTION, paramsSchema: PARAMS_SCHEMA };

/**
 * A wish from an ask's arguments. What cannot be understood is no wish: the answer is never an error.
 *
 * @param {Record<string, any>} params
 * @param {import("./protocol.js").Precision} precision
 * @returns {Wish}
 */
export function readWish({ desired_accuracy: desired, max_age_ms: maxAge }, precision) {
  const accuracyM =
    typeof desired === "number" && desired > 0
      ? desired
      : (WANTED_ACCURACY_M.get(desired) ?? DEFAULT_ACCURACY_M);
  return {
    accuracyM,
    maxAgeMs: typeof maxAge === "number" && maxAge >= 0 ? maxAge : undefined,
    highAccuracy: precision === "precise" && accuracyM < HIGH_ACCURACY_BELOW_M,
  };
}

/**
 * Accuracy is a wish, not a gate: a fix also will do when a request of this call's own would ask for no more.
 *
 * @param {import("./answers.js").Fix} fix
 * @param {Wish} requested
 * @param {Wish} wanted
 */
export function isExactEnough(fix, requested, wanted) {
  return fix.accuracy <= wanted.accuracyM || requested.highAccuracy || !wanted.highAccuracy;
}
