"""One open ask: what was wanted, who owns it, what its client said of it, and when its guard must answer.

Pure: times are milliseconds of one monotonic clock, passed in.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from hereabouts.bus.port import Message
from hereabouts.schemas.bus_messages import ClientState
from hereabouts.schemas.limits import GUARD_MARGIN_MS, TRANSPORT_MARGIN_MS
from hereabouts.schemas.marks import TraceContext
from hereabouts.schemas.outcomes import OUTCOMES, Reason

from .dialect import Invoke, Outcome

MIN_CLIENT_BUDGET_MS = 50
"""A client is never given less: below this its own timer would fire before the frame is parsed."""

WAITS_FOR_PERSON = frozenset({ClientState.PROMPT_OPEN, ClientState.WAITING_FOR_USER})
"""States in which the person decides, so that with `wait="user"` the budget stands still."""


@dataclass(frozen=True, slots=True)
class ReplyTo:
    """A brain that waits for the answer of an ask, and how its message came here."""

    message: Message
    parent: TraceContext
    """The trace context that the message carried."""
    sent_at_ns: int
    received_at_ns: int

    @property
    def inbox(self) -> str:
        """Where the answer goes."""
        return self.message.reply_to


@dataclass(frozen=True, slots=True)
class AskRequest:
    """An ask as it came off the bus."""

    correlation_id: str
    tenant: str
    connection: str
    client_id: str
    tool: str
    params: dict[str, Any]
    left_ms: float
    """The ask's budget minus the time it lay in the stream; not positive means expired."""
    may_prompt: bool
    span: TraceContext
    """The edge's own span for this ask: the client's work stands under it."""
    reply_to: ReplyTo
    wait: Literal["no", "user"] = "no"
    wait_ms: int = 0
    purpose: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """One call may ask several clients of one edge: an ask is named by call and client."""
        return self.correlation_id, self.client_id


@dataclass(slots=True)
class OpenAsk:
    """An ask that has not been answered. Mutable; only `Asks` changes it."""

    request: AskRequest
    owner: str | None
    """The connection whose result counts; None while the client is away and may resume."""
    arrived_ms: float
    guard_at_ms: float
    wait_left_ms: float
    may_prompt: bool
    replies: list[ReplyTo] = field(default_factory=list)
    delivered_ms: float | None = None
    answered_ms: float | None = None
    state: ClientState | None = None
    reports: int = 0
    """Changes of state that the client has reported."""
    waiting_since_ms: float | None = None
    session: str | None = None
    kind: Literal["tab", "node"] = "tab"

    @classmethod
    def of(cls, request: AskRequest, owner: str | None, now_ms: float) -> "OpenAsk":
        """A new one; its guard fires GUARD_MARGIN_MS before what is left is over."""
        return cls(
            request=request,
            owner=owner,
            arrived_ms=now_ms,
            guard_at_ms=now_ms + max(0.0, request.left_ms - GUARD_MARGIN_MS),
            wait_left_ms=float(request.wait_ms) if request.wait == "user" else 0.0,
            may_prompt=request.may_prompt,
            replies=[request.reply_to],
        )

    @property
    def deadline_ms(self) -> float:
        """When the brain must have the answer."""
        return self.guard_at_ms + GUARD_MARGIN_MS

    def invoke(self, now_ms: float) -> Invoke:
        """The frame's content, with what is left for the client now."""
        stands_for_ms = self.wait_left_ms - self._stood_ms(now_ms) if self.waiting_since_ms is not None else 0.0
        left_ms = self.deadline_ms - now_ms - stands_for_ms
        return Invoke(
            correlation_id=self.request.correlation_id,
            tool=self.request.tool,
            params=self.request.params,
            budget_ms=max(MIN_CLIENT_BUDGET_MS, int(left_ms - TRANSPORT_MARGIN_MS)),
            may_prompt=self.may_prompt,
            traceparent=self.request.span.traceparent,
            wait=self.request.wait,
            wait_ms=max(0, int(self.wait_left_ms - self._stood_ms(now_ms))),
            purpose=self.request.purpose,
        )

    def report(self, state: ClientState, now_ms: float) -> None:
        """What the client says it is doing. While the person decides the budget stands still, up to `wait_ms` in all.

        The guard is set for the worst case at once (the person takes all of the wait, then the client all of its
        budget), so that no further timer is needed.
        """
        waits = state in WAITS_FOR_PERSON
        if waits and self.waiting_since_ms is None and self.wait_left_ms > 0:
            self.waiting_since_ms = now_ms
            self.guard_at_ms += self.wait_left_ms
        elif not waits and self.waiting_since_ms is not None:
            stood_ms = self._stood_ms(now_ms)
            self.guard_at_ms -= self.wait_left_ms - stood_ms
            self.wait_left_ms -= stood_ms
            self.waiting_since_ms = None
        self.state = state
        self.reports += 1

    def guard_outcome(self, hidden: bool) -> Outcome:
        """The honest answer for a client that did not answer, from what is known of it (DESIGN, Time)."""
        if self.owner is None:
            reason = Reason.NOT_READY
        elif hidden or self.state is ClientState.TAB_HIDDEN:
            reason = Reason.TAB_HIDDEN
        elif self.state in WAITS_FOR_PERSON:
            reason = Reason.PROMPT_OPEN
        elif self.state is ClientState.ACQUIRING:
            reason = Reason.ACQUIRING
        else:
            reason = Reason.CLIENT_SILENT
        return outcome_of(reason)

    def _stood_ms(self, now_ms: float) -> float:
        if self.waiting_since_ms is None:
            return 0.0
        return min(self.wait_left_ms, max(0.0, now_ms - self.waiting_since_ms))


def outcome_of(reason: Reason) -> Outcome:
    """An outcome that the edge itself makes; its status comes from the table."""
    return Outcome(status=OUTCOMES[reason].status, reason=reason, during_call=False)
