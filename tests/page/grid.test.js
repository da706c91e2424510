import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { cellCentre } from "../../services/browser-bridge/hereabouts/browser_bridge/client/grid.js";

describe("the grid of approximate positions", () => {
  it("gives the centre of the fixed cell (worked by hand for latitude 0.01, longitude 0.01)", () => {
    // row 0: centre 1,000 m north of the equator; 20,037 columns there; longitude 0.01 lies in the 10,019th
    const { latitude, longitude } = cellCentre(0.01, 0.01);
    assert.ok(Math.abs(latitude - 1_000 / 111_320) < 1e-12);
    assert.ok(Math.abs(longitude - ((10_019.5 * 360) / 20_037 - 180)) < 1e-9);
  });

  it("is stable: a centre lies in its own cell", () => {
    for (let latitude = -89.5; latitude <= 89.5; latitude += 3.7) {
      for (let longitude = -179.9; longitude < 180; longitude += 17.3) {
        const once = cellCentre(latitude, longitude);
        const twice = cellCentre(once.latitude, once.longitude);
        assert.ok(Math.abs(once.latitude - twice.latitude) < 1e-9);
        assert.ok(Math.abs(once.longitude - twice.longitude) < 1e-9);
      }
    }
  });

  it("moves nobody by more than half a cell's diagonal", () => {
    for (let i = 0; i < 2_000; i++) {
      const [latitude, longitude] = [Math.sin(i) * 85, ((i * 37.77) % 360) - 180];
      const centre = cellCentre(latitude, longitude);
      const north = Math.abs(centre.latitude - latitude) * 111_320;
      const east = Math.abs(centre.longitude - longitude) * 111_320 * Math.cos((latitude * Math.PI) / 180);
      assert.ok(Math.hypot(north, east) < 1_500, `${north} ${east}`);
    }
  });

  it("holds at the poles and at the date line", () => {
    for (const [latitude, longitude] of [[90, 0], [-90, 180], [0, 180], [0, -180]]) {
      const centre = cellCentre(latitude, longitude);
      assert.ok(Math.abs(centre.latitude) <= 90 && Math.abs(centre.longitude) <= 180);
    }
    assert.deepEqual(cellCentre(10, 180), cellCentre(10, -180));
  });
});
