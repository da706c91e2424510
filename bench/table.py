"""The plain table."""

from typing import Any

NAMES = {"brain": "brain", "bridge": "bridge", "server": "redis", "otlp_sink": "sink", "tabs": "tabs", "load": "load"}
OURS = ("brain", "bridge", "server")
"""Whose CPU is the call's; the rest are its surroundings, the same for both sides."""


def render(levels: dict[str, Any], exported: dict[str, Any] | None, setting: dict[str, Any]) -> str:
    """The figures as text."""
    head = f"{'callers':>7} {'':5} {'calls/s':>8} {'p50 ms':>8} {'p99 ms':>8}  "
    head += f"{'CPU µs':>7} " + " ".join(f"{title:>7}" for title in NAMES.values()) + f" {'failed':>7}"
    lines = [
        "The whole call: HTTP in to answer out, instant tabs on real sockets. CPU in µs a call: brain + bridge + redis,",
        f"then each process. {_words(setting)}",
        "",
        head,
        "-" * len(head),
    ]
    failures = []
    for level, by_side in levels.items():
        for name in ("floor", "real"):
            if name not in by_side:
                continue
            figures = by_side[name]
            cpu = figures["cpu_us"]
            row = (
                f"{level:>7} {name:5} {figures['calls_per_s']:8.0f} {figures['p50_ms']:8.2f} {figures['p99_ms']:8.2f}  "
            )
            row += f"{sum(cpu[process] for process in OURS):7.0f} "
            row += " ".join(f"{cpu[process]:7.0f}" if process in cpu else f"{'–':>7}" for process in NAMES)
            lines.append(row + f" {figures['failed']:7d}")
            if figures["first_failure"]:
                failures.append(f"{level} {name}: {figures['first_failure']}")
        if "ratio" in by_side:
            ratio = by_side["ratio"]
            row = f"{level:>7} ratio {ratio['calls_per_s']:8.2f} {ratio['p50_ms']:8.2f} {ratio['p99_ms']:8.2f}"
            cpu = [sum(by_side[side]["cpu_us"][process] for process in OURS) for side in ("real", "floor")]
            lines.append(row + (f"  {cpu[0] / cpu[1]:7.2f}" if cpu[1] else ""))
    if exported is not None:
        spans = ", ".join(f"{count} of {service}" for service, count in sorted(exported["spans"].items()))
        lines += ["", f"Exported while measured: {exported['traces']} traces ({spans or 'no spans'})."]
    lines += [f"First failure at {failure}" for failure in failures]
    return "\n".join(lines)


def _words(setting: dict[str, Any]) -> str:
    rounds = (
        f"medians of {setting['rounds']} rounds of {setting['seconds']:g} s" if setting["seconds"] else "a few calls"
    )
    return f"{setting['cores']} cores, Python {setting['python']}, {rounds}, trace ratio {setting['trace_ratio']:g}."
