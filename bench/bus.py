"""The bus hop alone: request and reply between two processes, beside raw redis-py. `python -m bench.bus --help`.

Rounds of both sides take turns on the same server, since machines are noisy; figures are medians over rounds, and
ratios are medians of each round's own ratio. Results on Hereabouts' bus are sealed, entries deleted once they are read;
the floor does neither.
"""

import argparse
import json
import platform
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from bench.processes import Process
from hereabouts.bus import server

FIGURES = ("requests_per_s", "p50_us", "p99_us", "ask_cpu_us", "answer_cpu_us", "server_cpu_us")
TITLES = ("req/s", "p50 µs", "p99 µs", "ask", "answer", "redis")


class Pair:
    """One side's two processes."""

    def __init__(self, name: str, url: str, server_pid: int, folder: Path, stack: ExitStack) -> None:
        self.name = name
        self._server = psutil.Process(server_pid)
        self._answer = Process.module("bench.bus_sides", name, "answer", url, log=folder / f"{name}-answer.log")
        stack.callback(self._answer.end)
        inbox = self._answer.answer()["inbox"]
        to = [inbox] if name == "bus" else [""]
        self._ask = Process.module("bench.bus_sides", name, "ask", url, *to, log=folder / f"{name}-ask.log")
        stack.callback(self._ask.end)
        self._ask.answer()

    def round(self, callers: int, seconds: float, calls: int | None = None) -> dict[str, float]:
        """One round's figures; CPU is microseconds a request."""
        before = self._answer.cpu_us(), self._server_cpu_us()
        self._ask.say({"callers": callers, "seconds": seconds, "calls": calls})
        figures: dict[str, float] = self._ask.answer()
        after = self._answer.cpu_us(), self._server_cpu_us()
        figures["answer_cpu_us"] = (after[0] - before[0]) / figures["requests"]
        figures["server_cpu_us"] = (after[1] - before[1]) / figures["requests"]
        return figures

    def _server_cpu_us(self) -> float:
        times = self._server.cpu_times()
        return float((times.user + times.system) * 1e6)


def measure(levels: list[int], rounds: int, seconds: float, calls: int | None) -> dict[str, Any]:
    """Medians and ratios by level."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        made = server.embedded(folder / "data")
        stack.callback(server.stop, folder / "data")
        pairs = [Pair(name, made.url, made.pid, folder, stack) for name in ("floor", "bus")]
        report = {}
        for level in levels:
            taken: dict[str, list[dict[str, float]]] = {pair.name: [] for pair in pairs}
            for pair in pairs:
                pair.round(level, seconds / 3, calls)  # warm
            for number in range(rounds):
                for pair in pairs if number % 2 == 0 else reversed(pairs):
                    taken[pair.name].append(pair.round(level, seconds, calls))
            report[str(level)] = summary(taken)
        return report


def summary(taken: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    """One level: each side's medians, and the ratio bus / floor."""
    by_side = {name: {key: median(each[key] for each in rounds) for key in FIGURES} for name, rounds in taken.items()}
    both = list(zip(taken["bus"], taken["floor"], strict=True))
    by_side["ratio"] = {
        key: median(mine[key] / floor[key] if floor[key] else 0.0 for mine, floor in both) for key in FIGURES
    }
    return by_side


def render(report: dict[str, Any], setting: dict[str, Any]) -> str:
    """The figures as text."""
    head = f"{'callers':>7} {'':5} " + " ".join(f"{title:>8}" for title in TITLES)
    lines = [
        "The bus hop: request and reply of 300 bytes between two processes; the floor is raw redis-py, coalesced.",
        f"CPU (ask, answer, redis) in µs a request. {setting['cores']} cores, Python {setting['python']}, "
        f"medians of {setting['rounds']} rounds of {setting['seconds']:g} s.",
        "",
        head,
        "-" * len(head),
    ]
    for level, by_side in report.items():
        for name in ("floor", "bus", "ratio"):
            form = "8.2f" if name == "ratio" else "8.0f"
            lines.append(f"{level:>7} {name:5} " + " ".join(f"{by_side[name][key]:{form}}" for key in FIGURES))
    return "\n".join(lines)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.bus", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures here as well")
    parser.add_argument("--quick", action="store_true", help="a handful of requests: shows that it works")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 16, 64], metavar="N")
    known, _ = parser.parse_known_args(arguments)  # `make bench` hands its ARGS to both benchmarks
    return known


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write."""
    options = parse(arguments)
    rounds = 1 if options.quick else options.rounds
    report = measure(
        [1, 4] if options.quick else options.callers, rounds, options.seconds, 8 if options.quick else None
    )
    setting = {
        "cores": psutil.cpu_count(),
        "python": platform.python_version(),
        "rounds": rounds,
        "seconds": options.seconds,
    }
    print(render(report, setting))
    if options.json:
        options.json.write_text(json.dumps({"setting": setting, "levels": report}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
