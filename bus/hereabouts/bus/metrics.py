"""Counters of the bus. Labels are bounded: kinds, inbox templates, and words of this file; never an instance or a tenant."""

from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)

SENDS = Counter("hereabouts_bus_sends", "Messages put on an inbox", ["destination", "kind"])
FAILURES = Counter("hereabouts_bus_failures", "Commands that failed", ["error"])
RECONNECTS = Counter("hereabouts_bus_reconnects", "Connections of the outbox that were lost")
RECEIVED = Counter("hereabouts_bus_received", "Messages handed to this process", ["destination", "kind"])
EXPIRED = Counter("hereabouts_bus_expired", "Messages that were too old to be handed over", ["destination"])
MALFORMED = Counter("hereabouts_bus_malformed", "Entries that could not be read or opened", ["destination"])
READER_RESTARTS = Counter("hereabouts_bus_reader_restarts", "Times that the inbox reader had to be restarted")
EPOCHS = Counter("hereabouts_bus_epochs", "New epochs of this process", ["cause"])
OUTBOX_DEPTH = Gauge("hereabouts_bus_outbox_depth", "Commands waiting for Redis or for its reply")
LEASE_RENEWED = Gauge("hereabouts_bus_lease_renewed_timestamp_seconds", "When the lease was last renewed (unix time)")
BATCH_SIZE = Histogram(
    "hereabouts_bus_batch_size", "Commands that left in one write", buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 1024)
)
QUEUE_AGE = Histogram(
    "hereabouts_bus_queue_age_seconds", "From Redis's stamp to the handler", ["destination"], buckets=_SECONDS
)
