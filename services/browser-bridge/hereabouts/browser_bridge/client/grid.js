/**
 * Approximate positions: the centre of a fixed cell about 2 km wide and high. The cell is fixed so that asking again
 * tells nothing more (noise could be averaged away).
 */

const CELL_M = 2_000;
const METRES_PER_DEGREE = 111_320;
const EQUATOR_M = 40_075_016.686;

/** What an approximate position's accuracy is at least, in metres. */
export const APPROXIMATE_ACCURACY_M = 2_000;

/**
 * The centre of the cell that a position lies in.
 *
 * @param {number} latitude   degrees, WGS 84
 * @param {number} longitude  degrees, WGS 84
 * @returns {{latitude: number, longitude: number}}
 */
export function cellCentre(latitude, longitude) {
  const row = Math.floor((latitude * METRES_PER_DEGREE) / CELL_M);
  const centre = Math.max(-90, Math.min(90, ((row + 0.5) * CELL_M) / METRES_PER_DEGREE));
  const columns = Math.max(1, Math.floor((EQUATOR_M * Math.cos((centre * Math.PI) / 180)) / CELL_M));
  const column = Math.floor(((longitude + 180) / 360) * columns);
  const wrapped = ((column % columns) + columns) % columns;
  return { latitude: centre, longitude: ((wrapped + 0.5) * 360) / columns - 180 };
}
