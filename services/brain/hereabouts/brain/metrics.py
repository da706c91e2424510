"""Counters of calls. Labels are bounded: our own tool's name or `other`, statuses, reasons and words of this file."""

from functools import cache

from prometheus_client import Counter, Gauge, Histogram

from hereabouts.schemas.tools import LOCATION_GET

from .answers import Answer

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)

CALL_SECONDS = Histogram(
    "hereabouts_call_duration_seconds",
    "From the request to the answer",
    ["tool", "status", "reason"],
    buckets=_SECONDS,
)
OPEN_CALLS = Gauge("hereabouts_open_calls", "Calls that have not settled")
ASKS_PER_CALL = Histogram("hereabouts_call_asks", "Clients asked within one call", buckets=(0, 1, 2, 3, 5, 8, 13, 21))
IGNORED_RESULTS = Counter("hereabouts_ignored_results", "Results that did not count", ["cause"])
EDGES_LOST = Counter("hereabouts_edges_lost", "Edges whose lease lapsed while they held open asks")
HTTP_ERRORS = Counter("hereabouts_http_errors", "Requests answered with an error", ["code"])


@cache
def _seconds(tool: str, status: str, reason: str) -> Histogram:
    return CALL_SECONDS.labels(tool, status, reason)


def tool_label(tool: str) -> str:
    """Clients name their tools as they like: only ours is a label of its own."""
    return tool if tool == LOCATION_GET else "other"


def observe_call(tool: str, answer: Answer, asks: int) -> None:
    """Count one settled call."""
    reason = getattr(answer, "reason", None)
    _seconds(tool_label(tool), str(answer.status), str(reason or "")).observe(answer.elapsed_ms / 1000)
    ASKS_PER_CALL.observe(asks)
