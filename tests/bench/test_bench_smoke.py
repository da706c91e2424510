"""The benchmark of the whole call works: a handful of calls, and nothing said of time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT_S = 50


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.call", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)


@pytest.mark.system
def test_both_sides_answer_every_call_and_stand_in_one_table(tmp_path: Path) -> None:
    report = tmp_path / "call.json"

    ended = run("--quick", "--json", str(report))

    assert ended.returncode == 0, ended.stderr + ended.stdout
    levels = json.loads(report.read_text())["levels"]
    assert set(levels) == {"1", "4"}
    for level in levels.values():
        for side in ("floor", "real"):
            assert (level[side]["calls"], level[side]["failed"]) == (8, 0), level[side]["first_failure"]
            assert {"brain", "bridge", "server"} <= level[side]["cpu_us"].keys()
        assert level["ratio"]["calls_per_s"] > 0
    assert {"floor", "real", "ratio"} <= set(ended.stdout.split())
