"""Where brain and bridge spend their time under load: py-spy's samples, summed by function and by line."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from bench.processes import Process
from bench.sides import Side

SECONDS = 8
SAMPLES_A_SECOND = 500
SHOWN = 45

IDLE = ("Condition.wait ", "wait (threading", "Runner.run ")
"""Threads that wait for work, and the event loop's own poll, which py-spy sees as one frame with uvloop's C code."""


def profile(side: Side, callers: int, folder: Path) -> None:
    """Sample brain and bridge, one after the other, while `callers` call; a text file each in `folder`."""
    spy = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if spy is None:
        raise SystemExit("bench: --profile needs py-spy (pip install py-spy)")
    folder.mkdir(parents=True, exist_ok=True)
    side.round(callers, 1.0)
    for process in side.processes[:2]:
        raw = folder / f"{side.name}-{process.name}.raw"
        sampling = _sample(spy, process, raw)
        side.round(callers, SECONDS + 2.0)
        if sampling.wait() != 0:
            raise SystemExit(f"bench: py-spy cannot read {process.name} (it needs the right to trace processes)")
        text = folder / f"{side.name}-{process.name}.txt"
        text.write_text(summed(raw.read_text()))
        print(text)


def _sample(spy: str, process: Process, raw: Path) -> "subprocess.Popen[bytes]":
    options = ["--duration", str(SECONDS), "--rate", str(SAMPLES_A_SECOND), "--format", "raw", "--output", str(raw)]
    command = [spy, "record", "--pid", str(process.pid), *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def summed(raw: str) -> str:
    """Collapsed stacks (`frame;frame;… count`, a frame is `function (file:line)`) as three ranked lists in percent."""
    own_line: Counter[str] = Counter()
    own: Counter[str] = Counter()
    within: Counter[str] = Counter()
    total = 0
    for line in raw.splitlines():
        stack, _, samples = line.rpartition(" ")
        frames = stack.split(";")
        if frames[-1].startswith(IDLE):
            continue
        count = int(samples)
        total += count
        own_line[frames[-1]] += count
        own[_function(frames[-1])] += count
        within.update(dict.fromkeys((_function(frame) for frame in frames), count))
    parts = []
    for title, counter in (("itself", own), ("itself, by line", own_line), ("with what it calls", within)):
        rows = [f"{count / total:7.2%}  {name}" for name, count in counter.most_common(SHOWN)]
        parts.append("\n".join([f"{title} ({total} samples)", *rows]))
    return "\n\n".join(parts) + "\n"


def _function(frame: str) -> str:
    return frame.rpartition(":")[0] + ")" if frame.endswith(")") and ":" in frame else frame
