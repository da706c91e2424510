"""Every limit of the system, in one place, each with its reason.

Times are milliseconds, sizes are bytes.
"""

# --- time -----------------------------------------------------------------------------------------------------------

CLIENT_BUDGET_MS = 5_000
"""What `location_get` gives the person and the device, measured at the brain: an agent's loop must not stand still."""

BRAIN_BUDGET_MS = 30_000
"""The last resort. Ends a call that client, guard and lease watch all missed."""

TOOL_BUDGET_MS = 10_000
"""The default for other tools that a client registered: they may do real work, and no person is waited for."""

MAX_TIMEOUT_MS = 29_000
"""The highest budget that a caller can wish for: it must end before the last resort does. More is capped, and said."""

MIN_TIMEOUT_MS = 500
"""The lowest budget that a caller can wish for: with less, the transport's margin would leave a client nothing."""

TRANSPORT_MARGIN_MS = 300
"""Kept back from the client's budget for two stream hops and the socket, so that an answer in time is also here in time."""

GUARD_MARGIN_MS = 100
"""The edge's guard answers for a silent client this long before the budget ends: one stream hop under load."""

RESULT_GRACE_MS = 200
"""How long the guard waits after the client's own timer for its answer to arrive (TRANSPORT_MARGIN − GUARD_MARGIN)."""

LEASE_MS = 3_000
"""An edge or brain that has not renewed for this long counts as gone."""

LEASE_RENEW_MS = 1_000
"""Three tries before a lease lapses."""

LEASE_WATCH_MS = 250
"""How often a brain looks at the leases of edges that hold its open asks: an answer within 4 s of a death."""

RESULT_MEMORY_MS = 60_000
"""How long edges and clients remember what they answered, so that a duplicate ask is answered and not done again."""

JOURNAL_TTL_MS = 600_000
"""How long a call's story can be read."""

SESSION_TTL_MS = 24 * 3_600_000
"""A conversation's life without use."""

CODE_TTL_MS = 10 * 60_000
"""The chat page's one-time code: long enough to walk to the phone, short enough to be worthless in a history."""

TOKEN_TTL_MS = 12 * 3_600_000
"""A session's client and agent tokens."""

HELLO_TIMEOUT_MS = 5_000
"""A socket that has not said who it is by then is closed (4001)."""

WAIT_CAP_MS = 300_000
"""The longest that a call waits for a person (`wait="user"`)."""

# --- streams --------------------------------------------------------------------------------------------------------

STREAM_RETENTION_MS = 90_000
"""Inbox entries older than this are trimmed: three times the longest call."""

JOURNAL_PARTITIONS = 16
"""Journal streams; a Cluster spreads them, a reader of one call needs only one."""

MAX_OUTBOX_COMMANDS = 10_000
"""Commands waiting for Redis in one process. More means Redis is stuck: fail fast (`BusOverloaded`) instead of growing."""

# --- sockets --------------------------------------------------------------------------------------------------------

MAX_FRAME_BYTES = 64 * 1024
"""A browser frame; closed with 1009 beyond."""

MAX_BUFFERED_BYTES = 1024 * 1024
"""What may wait for a slow browser before it is cut (1008)."""

MAX_BAD_FRAMES = 10
"""Malformed frames that one socket may send before it is closed (1008)."""

MAX_TOOLS_PER_CLIENT = 64
"""Tools that one client may register: a page has a handful, a flood is a mistake or an attack."""

MAX_TOOLS_BYTES = 256 * 1024
"""JSON of all tools of one client: 4 KiB of description and schema each. Brains read it from the directory per call."""

MAX_REMEMBERED_RESULTS = 1_000
"""Results that one client's connection remembers for duplicates."""

# --- sizes ----------------------------------------------------------------------------------------------------------

MAX_REQUEST_BYTES = 64 * 1024
"""A request body to the brain."""

MAX_RESULT_BYTES = 48 * 1024
"""A tool's result: fits a browser frame with its envelope."""

MAX_PURPOSE_CHARS = 200
"""Why the agent asks, as the person reads it on a phone."""

MAX_LABEL_CHARS = 80
"""A label that a client made (device name, page title), after cleaning."""

MAX_TRACEPARENT_CHARS = 55
"""W3C Trace Context, version 00."""
