"""The whole call, HTTP in to answer out, beside a hand-written floor in the same run. `python -m bench.call --help`.

Rounds of both sides take turns, since machines are noisy; figures are medians over rounds, and ratios are medians of
each round's own ratio.
"""

import argparse
import json
import platform
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from bench import profiling, real, sides
from bench.processes import Process
from bench.table import render

FIGURES = ("calls", "failed", "p50_ms", "p99_ms", "calls_per_s")

WANTED_CALLS_RATIO = 0.4
"""Of the floor's calls a second, at the most callers."""

WANTED_P50_RATIO = 2.0
"""Times the floor's median time, with one caller."""


def measure(pair: list[sides.Side], concurrent: list[int], rounds: int, seconds: float, calls: int) -> dict[str, Any]:
    """All rounds at all levels: `{level: {side: [figures, …]}}`, both sides taking turns."""
    taken: dict[str, Any] = {}
    for level in concurrent:
        taken[str(level)] = {side.name: [] for side in pair}
        for side in pair:
            side.round(level, seconds / 3, calls)  # warm: code paths, connections, caches
        for number in range(rounds):
            for side in pair if number % 2 == 0 else reversed(pair):
                tell(f"{level} callers, round {number + 1}: {side.name}")
                taken[str(level)][side.name].append(side.round(level, seconds, calls))
    tell("")
    return taken


def tell(text: str) -> None:
    """What goes on now, on a terminal's one line."""
    if sys.stderr.isatty():
        print(f"\r{text:<50}\r{text}", end="", file=sys.stderr, flush=True)


def summary(taken: dict[str, Any]) -> dict[str, Any]:
    """Medians by level and side, and `ratio` (real / floor) where both were measured."""
    levels: dict[str, Any] = {}
    for level, by_side in taken.items():
        levels[level] = {}
        for name, rounds in by_side.items():
            figures = {key: median(figure[key] for figure in rounds) for key in FIGURES}
            figures["failed"] = sum(figure["failed"] for figure in rounds)
            figures["first_failure"] = next((f["first_failure"] for f in rounds if f["first_failure"]), "")
            names = rounds[0]["cpu_us"]
            figures["cpu_us"] = {process: median(figure["cpu_us"][process] for figure in rounds) for process in names}
            levels[level][name] = figures
        if {"floor", "real"} <= by_side.keys():
            pairs = list(zip(by_side["real"], by_side["floor"], strict=True))
            levels[level]["ratio"] = {
                key: median(mine[key] / floor[key] if floor[key] else 0.0 for mine, floor in pairs)
                for key in ("p50_ms", "p99_ms", "calls_per_s")
            }
    return levels


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.call", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here as well")
    parser.add_argument(
        "--quick", action="store_true", help="a handful of calls: shows that it works, measures nothing"
    )
    parser.add_argument("--concurrency", default="1,16,64", help="callers at once, by commas (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of each side at each level (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a round (default %(default)s)")
    parser.add_argument("--only", choices=("floor", "real"), help="one side alone")
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FOLDER",
        help="sample brain and bridge under load instead, by py-spy, into FOLDER",
    )
    options = parser.parse_args(arguments)
    options.concurrency = [int(part) for part in options.concurrency.split(",")]
    options.calls = 0
    if options.quick:
        options.concurrency, options.rounds, options.calls = [1, 4], 1, 8
    return options


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 1 when calls failed."""
    options = parse(arguments)
    callers = max(options.concurrency)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # children are ended all the same
    with tempfile.TemporaryDirectory(prefix="hereabouts-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        server, url = sides.start_server(stack, folder)
        pair: list[sides.Side] = []
        if options.only != "real":
            pair.append(sides.floor(stack, folder, server, url, callers))
        sink: Process | None = None
        if options.only != "floor":
            side, sink = real.start(stack, folder, server, url, callers)
            pair.append(side)
        if options.profile is not None:
            for side in pair:
                profiling.profile(side, callers, options.profile)
            return 0
        taken = measure(pair, options.concurrency, options.rounds, options.seconds, options.calls)
        exported = None
        if sink is not None:
            real.wait_for_exports()
            sink.say("counts")
            exported = sink.answer()
    levels = summary(taken)
    setting = {
        "python": platform.python_version(),
        "cores": psutil.cpu_count(),
        "rounds": options.rounds,
        "seconds": 0 if options.calls else options.seconds,
        "trace_ratio": real.TRACE_RATIO,
    }
    print(render(levels, exported, setting))
    if options.json is not None:
        report = {"setting": setting, "levels": levels, "exported": exported, "rounds": taken}
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return int(any(figures["failed"] for level in taken.values() for side in level.values() for figures in side))


if __name__ == "__main__":
    sys.exit(main())
