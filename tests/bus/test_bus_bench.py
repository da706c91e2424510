"""The benchmark of the bus hop works: a handful of requests, and nothing said of time."""

import json
import subprocess
import sys
from pathlib import Path


def test_both_sides_answer_every_request(tmp_path):
    report = tmp_path / "bus.json"
    ended = subprocess.run(
        [sys.executable, "-m", "bench.bus", "--quick", "--json", str(report)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert ended.returncode == 0, ended.stderr
    levels = json.loads(report.read_text())["levels"]
    assert set(levels) == {"1", "4"}
    assert all(level[side]["requests_per_s"] > 0 for level in levels.values() for side in ("floor", "bus", "ratio"))
