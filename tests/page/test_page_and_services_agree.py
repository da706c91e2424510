"""What stands in the page's modules and in the services' must be the same on both sides of the socket."""

import json
import math
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hereabouts.schemas import limits
from hereabouts.schemas.grid import APPROXIMATE_ACCURACY_M, approximate
from hereabouts.schemas.tools import LOCATION_GET_TOOL

ROOT = Path(__file__).parent.parent.parent
CLIENT = ROOT / "services/browser-bridge/hereabouts/browser_bridge/client"
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.npm,
    pytest.mark.skipif(NODE is None, reason="needs Node.js on PATH (Debian: apt install nodejs)"),
]


def in_page(script: str, given: Any = None) -> Any:
    """What a script prints as JSON that imports the page's modules; it finds its input in `given`."""
    assert NODE is not None
    source = f"const given = {json.dumps(given)};\n{script}"
    command = [NODE, "--no-warnings", "--input-type=module", "--eval", source]
    done = subprocess.run(command, capture_output=True, text=True, cwd=CLIENT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_grid_of_approximate_positions_is_one() -> None:
    chance = random.Random(1)
    points = [(chance.uniform(-90, 90), chance.uniform(-180, 180)) for _ in range(2_000)]
    points += [(90.0, 0.0), (-90.0, 180.0), (0.0, 180.0), (0.0, -180.0), (0.0, 0.0)]
    script = """
        import { cellCentre, APPROXIMATE_ACCURACY_M } from "./grid.js";
        const cells = given.map(([latitude, longitude]) => Object.values(cellCentre(latitude, longitude)));
        console.log(JSON.stringify({ cells, accuracy: APPROXIMATE_ACCURACY_M }));
    """
    page = in_page(script, points)
    assert page["accuracy"] == APPROXIMATE_ACCURACY_M
    for (latitude, longitude), cell in zip(points, page["cells"], strict=True):
        assert all(
            math.isclose(a, b, abs_tol=1e-9) for a, b in zip(cell, approximate(latitude, longitude), strict=True)
        )


def test_limits_are_the_same() -> None:
    script = """
        import { MAX_RESULT_BYTES, RESULT_MEMORY_MS } from "./protocol.js";
        console.log(JSON.stringify([MAX_RESULT_BYTES, RESULT_MEMORY_MS]));
    """
    assert in_page(script) == [limits.MAX_RESULT_BYTES, limits.RESULT_MEMORY_MS]


def test_agents_read_the_same_of_the_tool_wherever_it_was_registered() -> None:
    page = in_page('import { LOCATION_GET } from "./wish.js"; console.log(JSON.stringify(LOCATION_GET));')
    assert page["name"] == LOCATION_GET_TOOL.name
    assert page["description"] == LOCATION_GET_TOOL.description
    assert page["paramsSchema"]["properties"].keys() == LOCATION_GET_TOOL.params_schema["properties"].keys()
