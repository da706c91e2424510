"""What a client dialect is: a state machine of one socket, without I/O and without a clock.

The edge feeds it what happened (a frame, an ask, an answer to its question, the time) and carries out the actions it
returns. `services/browser-bridge` and `services/node-gateway` each have one; everything else about a socket (buffers,
ownership of asks, guards, the directory) is the edge's and the same for both.

All times are milliseconds of one monotonic clock that the edge passes in; wall-clock times are named `wall_ms`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from hereabouts.schemas.bus_messages import ClientState
from hereabouts.schemas.fixes import Fix
from hereabouts.schemas.outcomes import Reason, Status
from hereabouts.schemas.records import ClientRecord

# --- actions: what a dialect wants done -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Write one text frame."""

    text: str


@dataclass(frozen=True, slots=True)
class Close:
    """Close the socket after what was sent. `cause` is a bounded word for the counter of rejected frames and closes."""

    code: int
    reason: str
    cause: str


@dataclass(frozen=True, slots=True)
class Question:
    """Something only I/O can tell (does this session exist? is this device paired?).

    The edge hands it to the service's resolver and feeds the answer to `Dialect.resolved` with the same `number`.
    Frames that arrive meanwhile wait (at most a few; the socket is not read further).
    """

    number: int
    about: Any


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The socket may now send frames of this size; the timer for silent sockets ends."""

    max_frame_bytes: int
    max_buffered_bytes: int


@dataclass(frozen=True, slots=True)
class Registration:
    """The client's place in the directory as it now stands; replaces the earlier one. None of its fields is I/O's.

    The edge adds `edge`, `epoch`, `connection` and `since_ms` and writes a ClientRecord. Changes within one loop turn
    are written once.
    """

    record: ClientRecord
    """With edge, connection empty and epoch, since_ms 0."""
    resume: str | None = None
    """A secret that the client showed: if the same tenant, session and client_id had a socket with this secret, the
    new socket takes over that one's open asks, and the old is closed."""
    resume_next: str | None = None
    """The secret under which this socket may be resumed later."""


@dataclass(frozen=True, slots=True)
class Unregistered:
    """The client has left the directory; its socket may stay."""


@dataclass(frozen=True, slots=True)
class ClientPhase:
    """A phase the client reports on its own monotonic clock, in milliseconds since it received the invoke."""

    name: Literal["permission_query", "prompt_open", "waiting", "acquiring", "answered"]
    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client answered to an ask, in neutral words."""

    status: Status
    reason: Reason | Literal["would_prompt"] | None = None
    fix: Fix | None = None
    payload: Any = None
    error: str | None = None
    node_code: str | None = None
    during_call: bool = True
    phases: Sequence[ClientPhase] = ()
    client_clock_ms: float | None = None

    def __repr__(self) -> str:
        return f"Outcome(status={self.status.value}, reason={self.reason}, …)"


@dataclass(frozen=True, slots=True)
class Answered:
    """A result frame. The edge decides whether it counts and calls `Dialect.answered` with `token` and the verdict."""

    correlation_id: str
    outcome: Outcome
    token: Any
    """Whatever the dialect needs to acknowledge this frame (a request id)."""


@dataclass(frozen=True, slots=True)
class Reported:
    """Progress on an open ask."""

    correlation_id: str
    state: ClientState
    prompt: str | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """What the person decided after PENDING had been answered: a status, never a position."""

    correlation_id: str
    status: Status


@dataclass(frozen=True, slots=True)
class Rejected:
    """A frame that was refused, for the counter; the dialect has already said so to the client."""

    cause: str


Action = (
    Send | Close | Question | Authenticated | Registration | Unregistered | Answered | Reported | Decided | Rejected
)


# --- events: what the edge tells a dialect --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Invoke:
    """An ask for this client, with what is left for it."""

    correlation_id: str
    tool: str
    params: dict[str, Any]
    budget_ms: int
    may_prompt: bool
    traceparent: str
    wait: Literal["no", "user"] = "no"
    wait_ms: int = 0
    purpose: str | None = None


Verdict = Literal["accepted", "ignored", "not_yours"]
"""What the edge made of a result: accepted; late, unknown or repeated; or open, but asked of another client."""


@dataclass(slots=True)
class Peer:
    """What is known of the other end when a socket opens."""

    origin: str | None
    host: str
    address: str
    headers: dict[str, str] = field(default_factory=dict)


class Dialect(Protocol):
    """One socket's state machine. Every method returns the actions to carry out, in order; none raises for any input."""

    def opened(self, now_ms: float, wall_ms: int) -> list[Action]:
        """The socket is open."""

    def received(self, text: str, now_ms: float, wall_ms: int) -> list[Action]:
        """A text frame arrived."""

    def received_binary(self, now_ms: float) -> list[Action]:
        """A binary frame arrived; both dialects speak text only."""

    def resolved(self, number: int, answer: Any, now_ms: float, wall_ms: int) -> list[Action]:
        """The answer to a Question."""

    def unresolved(self, number: int, now_ms: float) -> list[Action]:
        """A Question could not be answered (the bus is away)."""

    def ask(self, invoke: Invoke, now_ms: float) -> list[Action]:
        """An ask for this client."""

    def cancel(self, correlation_id: str, reason: str, now_ms: float) -> list[Action]:
        """An ask is no longer needed (or its guard has answered)."""

    def answered(self, token: Any, verdict: Verdict) -> list[Action]:
        """What became of a result."""

    def tick(self, now_ms: float, wall_ms: int) -> list[Action]:
        """The time `wake_at_ms` has come."""

    @property
    def wake_at_ms(self) -> float | None:
        """When `tick` is next wanted; None when not at all. Re-read after each call."""

    @property
    def authenticated(self) -> bool:
        """Whether the client has said who it is."""
