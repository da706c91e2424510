"""What travels on the streams: asks and cancels to an edge, results and progress to a brain, and the journal."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from .base import EpochMs, Milliseconds, Model
from .fixes import Fix
from .marks import Mark, Packed, unpack
from .outcomes import WOULD_PROMPT, Reason, Status


class Kind(StrEnum):
    """The `kind` field of a stream entry."""

    ASK = "ask"
    CANCEL = "cancel"
    RESULT = "result"
    PROGRESS = "progress"


class ClientState(StrEnum):
    """What a client reports while it works on an ask."""

    PROMPT_OPEN = "prompt_open"
    WAITING_FOR_USER = "waiting_for_user"
    ACQUIRING = "acquiring"
    TAB_HIDDEN = "tab_hidden"


class Ask(Model):
    """One client is asked within a call. Body of an `ask` entry."""

    connection: str
    client_id: str
    tool: str
    params: dict[str, Any]
    budget_ms: Milliseconds = Field(
        description="what is left for this ask when it was sent, until the edge must have answered"
    )
    may_prompt: bool
    wait: Literal["no", "user"] = "no"
    wait_ms: Milliseconds = 0
    purpose: str | None = None
    sent_at_ns: int = Field(description="the brain's clock, for the mark of the hop")


class Cancel(Model):
    """The call no longer needs this client. Body of a `cancel` entry."""

    connection: str
    client_id: str
    reason: Literal["settled", "cancelled", "deadline"]


class ClientResult(Model):
    """What a client answered, in the neutral words of the bus. Body of a `result` entry, always sealed."""

    connection: str
    client_id: str
    epoch: int = Field(description="the edge's epoch; a result from an older one is refused")
    status: Status
    reason: Reason | Literal["would_prompt"] | None = Field(default=None, description="None with GRANTED")
    fix: Fix | None = None
    payload: Any = Field(default=None, description="what a tool other than location returned")
    error: str | None = Field(default=None, description="a client's own words about a failure, cleaned and cut")
    node_code: str | None = None
    by_guard: bool = Field(default=False, description="the edge answered for a silent client")
    during_call: bool = Field(default=True, description="the person decided during this call (not a standing refusal)")
    received_at_ms: EpochMs
    packed_marks: list[Packed] = Field(default_factory=list)
    packed_journal: list[dict[str, Any]] = Field(
        default_factory=list, description="the edge's lines, for the brain's one write at settle"
    )

    @property
    def marks(self) -> list[Mark]:
        """The spans of the hop, the edge and the client."""
        return [unpack(packed) for packed in self.packed_marks]

    @property
    def journal(self) -> "list[JournalEntry]":
        """The edge's lines."""
        return [JournalEntry.model_validate(line) for line in self.packed_journal]

    def __repr__(self) -> str:
        return f"ClientResult(status={self.status.value}, reason={self.reason}, …)"

    __str__ = __repr__


class Progress(Model):
    """What a client says of an open ask. Body of a `progress` entry."""

    connection: str
    client_id: str
    state: ClientState
    prompt: str | None = None


class JournalKind(StrEnum):
    """What can happen to a call."""

    ASKED = "asked"
    DELIVERED = "delivered"
    PROGRESS = "progress"
    ANSWERED = "answered"
    LATE = "late"
    SETTLED = "settled"


class JournalEntry(Model):
    """One line of a call's story. Statuses and times, never a position."""

    kind: JournalKind
    correlation_id: str
    tenant: str
    at_ms: EpochMs
    by: str = Field(description="role of the process that saw it: brain, browser-bridge, node-gateway")
    session: str | None = None
    tool: str | None = None
    client_kind: Literal["tab", "node"] | None = None
    client_id: str | None = None
    status: str | None = None
    reason: str | None = None
    state: ClientState | None = None
    deadline_ms: EpochMs | None = Field(default=None, description="when this hop must have answered")
    budget_ms: Milliseconds | None = None
    elapsed_ms: Milliseconds | None = None
    accuracy_bucket: Literal["≤25 m", "≤100 m", "≤3 km", ">3 km"] | None = None
    trace_id: str | None = None
    purpose: str | None = None
    marks: list[Mark] = Field(default_factory=list, description="the call's spans, in the `settled` entry")
    earlier: list["JournalEntry"] = Field(
        default_factory=list,
        description="in the `settled` entry: the edges' lines that came with their results, so that one write holds all",
    )


CLOCKS_DIFFER_MS = 5
"""How far the clocks of two processes, each estimated from Redis's, are taken to differ."""

_CAUSES = (JournalKind.ASKED, JournalKind.DELIVERED, JournalKind.ANSWERED)


class JournalLine(JournalEntry):
    """A line as it is kept: what the brain only carries (marks, the edges' lines) stays packed until somebody reads."""

    packed_marks: list[Packed] = Field(default_factory=list)
    packed_earlier: list[dict[str, Any]] = Field(default_factory=list)

    def entry(self) -> JournalEntry:
        """The line unpacked.

        Raises:
            ValidationError: what was packed is no mark or no line.
        """
        fields = {name: getattr(self, name) for name in self.model_fields_set & JournalEntry.model_fields.keys()}
        if self.packed_marks:
            fields["marks"] = [unpack(packed) for packed in self.packed_marks]
        if self.packed_earlier:
            fields["earlier"] = [JournalEntry.model_validate(line) for line in self.packed_earlier]
        return JournalEntry.model_validate(fields)


def in_order(entries: "list[JournalEntry]") -> "list[JournalEntry]":
    """A call's lines with those that a `settled` entry carries unfolded, by their times.

    Lines of two processes may seem a few milliseconds out of order. So a client's nth delivery never stands before its
    nth ask, nor its nth answer before that delivery, nor the settlement before what it settled.
    """
    lines = [line for entry in entries for line in (*entry.earlier, entry.model_copy(update={"earlier": []}))]
    lines.sort(key=lambda line: line.at_ms)
    count: dict[tuple[str | None, JournalKind], int] = {}
    seen: dict[tuple[str | None, int, JournalKind], int] = {}
    placed: list[tuple[int, int, JournalEntry]] = []
    for rank, kind in enumerate(_CAUSES):
        for line in (line for line in lines if line.kind is kind):
            nth = count[line.client_id, kind] = count.get((line.client_id, kind), 0) + 1
            cause = seen.get((line.client_id, nth, _CAUSES[rank - 1]), line.at_ms) if rank else line.at_ms
            at_ms = seen[line.client_id, nth, kind] = _not_before(cause, line.at_ms)
            placed.append((at_ms, rank, line))
    others = [line for line in lines if line.kind not in _CAUSES]
    placed += [(line.at_ms, len(_CAUSES), line) for line in others if line.kind is not JournalKind.SETTLED]
    latest = max((at_ms for at_ms, _, line in placed if line.kind is not JournalKind.LATE), default=0)
    placed += [
        (_not_before(latest, line.at_ms), len(_CAUSES) + 1, line) for line in others if line.kind is JournalKind.SETTLED
    ]
    return [line for _, _, line in sorted(placed, key=lambda place: place[:2])]


def _not_before(cause_ms: int, at_ms: int) -> int:
    """A time, moved behind its cause's as far as clocks may differ."""
    return cause_ms if at_ms < cause_ms <= at_ms + CLOCKS_DIFFER_MS else at_ms


def accuracy_bucket(accuracy_m: float) -> Literal["≤25 m", "≤100 m", "≤3 km", ">3 km"]:
    """How exact a fix was, coarse enough to tell nothing about the place."""
    if accuracy_m <= 25:
        return "≤25 m"
    if accuracy_m <= 100:
        return "≤100 m"
    return "≤3 km" if accuracy_m <= 3_000 else ">3 km"


ClientResult.model_rebuild()

__all__ = [
    "WOULD_PROMPT",
    "Ask",
    "Cancel",
    "ClientResult",
    "ClientState",
    "JournalEntry",
    "JournalKind",
    "JournalLine",
    "Kind",
    "Progress",
    "accuracy_bucket",
    "in_order",
]
