"""What a client's result is worth, which position wins, and which refusal tells the agent most. No I/O, no clock."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from hereabouts.schemas.bus_messages import ClientResult, ClientState
from hereabouts.schemas.fixes import Fix, distance_m, is_plausible
from hereabouts.schemas.outcomes import OUTCOMES, WOULD_PROMPT, Reason, Status
from hereabouts.schemas.records import ClientRecord
from hereabouts.schemas.tools import LOCATION_GET

WINDOW_MS = 150
"""How long the first position waits for a better one while other silent asks are out: not noticed by a person."""

NODE_SKEW_MS = 5_000
"""A node's fix is aged on the gateway's clock; the two clocks may differ this much."""

TAB_SLACK_MS = 1_000
"""A browser's fix is aged on its own clock, but providers cut the time of a fix to whole seconds."""

MAX_SPEED_M_S = 300.0
"""Faster than an airliner: two fixes that would need it cannot both be the same person's."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A usable answer: a plausible and fresh position, or another tool's result."""

    client: ClientRecord
    result: ClientResult


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one client gave nothing. `by_person`: decided during this very call."""

    client: ClientRecord
    reason: Reason
    by_person: bool = False
    result: ClientResult | None = None


@dataclass(frozen=True, slots=True)
class NeedsPrompt:
    """The client could only answer by a prompt, which it was not allowed to show."""

    client: ClientRecord


Judged = Grant | Refusal | NeedsPrompt


def judge(tool: str, client: ClientRecord, result: ClientResult, *, max_age_ms: int, open_for_ms: float) -> Judged:
    """What a result counts as.

    Args:
        open_for_ms: how long the ask had been out. A position found since then is as fresh as it can be.
    """
    if result.reason == WOULD_PROMPT:
        return NeedsPrompt(client)
    if result.status is not Status.GRANTED:
        reason = result.reason
        if not isinstance(reason, Reason) or OUTCOMES[reason].status is not result.status:
            # A status without its reason, or with one of another status, is a client that speaks wrongly.
            return Refusal(client, Reason.CLIENT_ERROR, result=result)
        by_person = result.during_call and reason in (Reason.DENIED, Reason.DISMISSED)
        return Refusal(client, reason, by_person=by_person, result=result)
    if tool != LOCATION_GET:
        return Grant(client, result)
    if result.fix is None:
        return Refusal(client, Reason.CLIENT_ERROR, result=result)
    if not is_plausible(result.fix):
        return Refusal(client, Reason.IMPLAUSIBLE, result=result)
    if not is_fresh(result.fix, client.kind, max_age_ms=max_age_ms, open_for_ms=open_for_ms):
        return Refusal(client, Reason.STALE, result=result)
    return Grant(client, result)


def is_fresh(fix: Fix, kind: Literal["tab", "node"], *, max_age_ms: int, open_for_ms: float) -> bool:
    """Whether a fix is no older than wanted, or was found after it was asked for."""
    slack = NODE_SKEW_MS if kind == "node" else TAB_SLACK_MS
    return fix.age_ms <= max_age_ms + open_for_ms + slack


def best(grants: Sequence[Grant], wanted_accuracy_m: float | None) -> Grant:
    """The winner: wanted accuracy met, then the newest fix, then the smallest radius; else who answered first.

    Raises:
        ValueError: there is none.
    """
    if not grants:
        raise ValueError("no grant to choose from")

    def worth(grant: Grant) -> tuple[bool, int, float]:
        fix = grant.result.fix
        if fix is None:
            return (False, 0, 0.0)
        missed = wanted_accuracy_m is not None and fix.accuracy > wanted_accuracy_m
        return (missed, -_found_at_ms(grant.result, fix), fix.accuracy)

    return min(grants, key=worth)


def in_conflict(grants: Sequence[Grant]) -> bool:
    """Whether two of these positions cannot both be true of one person."""
    fixes = [(g.result, g.result.fix) for g in grants if g.result.fix is not None]
    for i, (result_a, a) in enumerate(fixes):
        for result_b, b in fixes[i + 1 :]:
            seconds = abs(_found_at_ms(result_a, a) - _found_at_ms(result_b, b)) / 1000
            if distance_m(a, b) > a.accuracy + b.accuracy + MAX_SPEED_M_S * (seconds + 1):
                return True
    return False


def _found_at_ms(result: ClientResult, fix: Fix) -> int:
    """When the fix was found, on the edges' clock (a client's own wall clock may be off by hours)."""
    return result.received_at_ms - fix.age_ms


def reason_of_state(state: ClientState | None) -> Reason | None:
    """What an open ask counts as when the time is up, from what the client last reported."""
    match state:
        case ClientState.PROMPT_OPEN | ClientState.WAITING_FOR_USER:
            return Reason.PROMPT_OPEN
        case ClientState.ACQUIRING:
            return Reason.ACQUIRING
        case ClientState.TAB_HIDDEN:
            return Reason.TAB_HIDDEN
        case None:
            return None


_USEFUL = (
    # PENDING: nearest to an answer first.
    Reason.PROMPT_OPEN,
    Reason.ACQUIRING,
    Reason.TAB_HIDDEN,
    Reason.OPEN_THE_APP,
    Reason.NODE_ASLEEP,
    Reason.NOT_READY,
    Reason.EDGE_LOST,
    Reason.BUS_LOST,
    # DECLINED: what the person said before what a setting says.
    Reason.DENIED,
    Reason.DISMISSED,
    Reason.SHARING_OFF,
    Reason.LOCATION_DISABLED,
    Reason.NOT_NAGGED,
    Reason.POLICY,
    Reason.PERMISSION_REQUIRED,
    # UNAVAILABLE: what says most about the device first; mere silence last.
    Reason.STALE,
    Reason.POSITION_UNAVAILABLE,
    Reason.TIMEOUT,
    Reason.IMPLAUSIBLE,
    Reason.PERMISSIONS_POLICY,
    Reason.INSECURE_CONTEXT,
    Reason.UNSUPPORTED,
    Reason.CLIENT_ERROR,
    Reason.CLIENT_SILENT,
    Reason.DEADLINE,
    Reason.CANCELLED,
    Reason.NO_CLIENT,
)
_USEFULNESS = {reason: i for i, reason in enumerate(_USEFUL)}
if set(_USEFULNESS) != set(Reason):
    raise AssertionError("every reason has its place in the order")

_STATUS_RANK = {Status.PENDING: 1, Status.DECLINED: 2, Status.UNAVAILABLE: 3}


def rank(refusal: Refusal) -> tuple[int, int]:
    """Sort key: a DECLINED of this call, then PENDING, then a standing DECLINED, then UNAVAILABLE; most useful first."""
    status = OUTCOMES[refusal.reason].status
    first = 0 if refusal.by_person and status is Status.DECLINED else _STATUS_RANK[status]
    return (first, _USEFULNESS[refusal.reason])


def most_telling(refusals: Iterable[Refusal]) -> Refusal | None:
    """The refusal that the agent gets, or None when there is none."""
    return min(refusals, key=rank, default=None)
