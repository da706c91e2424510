"""Counters of an edge. Labels are bounded: words of this project, never a client, a tenant or an id."""

from prometheus_client import Counter, Gauge

CONNECTIONS = Gauge("hereabouts_edge_connections", "Open sockets", ["kind"])
OPEN_ASKS = Gauge("hereabouts_edge_open_asks", "Asks that nobody has answered yet")
ASKS = Counter("hereabouts_edge_asks", "Asks that arrived", ["fate"])
GUARD_ANSWERS = Counter("hereabouts_edge_guard_answers", "Answers that the edge gave for a client", ["reason"])
RESULTS = Counter("hereabouts_edge_results", "Result frames by what was made of them", ["verdict"])
LATE = Counter("hereabouts_edge_late_results", "Decisions that came after their answer had gone out", ["status"])
REJECTED = Counter("hereabouts_edge_rejected_frames", "Frames that were refused", ["cause"])
CLOSES = Counter("hereabouts_edge_closes", "Sockets that this side closed", ["cause"])
RECONNECTS = Counter("hereabouts_edge_reconnects", "Sockets that took over an earlier one's place")
DIRECTORY_FAILURES = Counter("hereabouts_edge_directory_failures", "Directory writes that failed and are tried again")
UNSENT = Counter("hereabouts_edge_unsent_messages", "Messages that the bus did not take", ["kind"])

ASKS_TAKEN = ASKS.labels("taken")
ASKS_EXPIRED = ASKS.labels("expired")
RESULTS_BY_VERDICT = {verdict: RESULTS.labels(verdict) for verdict in ("accepted", "ignored", "not_yours")}
"""Children of what is counted on every call: looking one up costs more than counting."""
