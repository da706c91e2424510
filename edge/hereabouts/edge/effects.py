"""What the open asks want done: `Asks` returns these, `Edge` carries them out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hereabouts.schemas.bus_messages import ClientState
from hereabouts.schemas.outcomes import Status

from .dialect import Invoke, Outcome
from .open_ask import OpenAsk, ReplyTo


@dataclass(frozen=True, slots=True)
class Deliver:
    """Give this ask to the connection's dialect."""

    connection: str
    invoke: Invoke


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Tell the connection's client that an ask is no longer needed."""

    connection: str
    correlation_id: str
    reason: Literal["settled", "cancelled", "deadline"]


@dataclass(frozen=True, slots=True)
class Result:
    """The answer of an ask, for each brain that waits for it."""

    ask: OpenAsk
    outcome: Outcome
    by_guard: bool
    replies: Sequence[ReplyTo]


@dataclass(frozen=True, slots=True)
class Told:
    """Progress on an open ask."""

    ask: OpenAsk
    state: ClientState
    prompt: str | None


@dataclass(frozen=True, slots=True)
class Late:
    """What became of an ask after its answer had gone out. A status, never a position."""

    ask: OpenAsk
    status: Status


@dataclass(frozen=True, slots=True)
class Replace:
    """A newer socket of the same client has taken this one's place: close it."""

    connection: str


Effect = Deliver | Withdraw | Result | Told | Late | Replace
