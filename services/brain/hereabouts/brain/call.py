"""One call as a state machine: events and the time go in, actions come out. No I/O, no clock.

    NEW ──start──▶ ASKING ──first usable answer──▶ CHOOSING ──150 ms, or nobody else is out──▶ SETTLED
                      └───────── all refused, time up, cancelled, bus lost ─────────────────────▶ SETTLED

All times are milliseconds of one monotonic clock, as floats; `wall_ms` turns them into wall-clock times for the journal.
A call settles exactly once. A result counts once, and only from the client, edge and epoch that was asked.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from hereabouts.schemas.bus_messages import ClientResult, ClientState, JournalEntry, JournalKind, Progress
from hereabouts.schemas.limits import BRAIN_BUDGET_MS
from hereabouts.schemas.outcomes import Reason
from hereabouts.schemas.records import ClientRecord
from hereabouts.schemas.tools import LOCATION_GET

from . import merging
from .deadlines import Budget
from .merging import Grant, NeedsPrompt, Refusal
from .routing import Plan, preference


class CallState(StrEnum):
    """Where a call stands."""

    NEW = "new"
    ASKING = "asking"
    CHOOSING = "choosing"
    SETTLED = "settled"


class AskState(StrEnum):
    """Where one client's ask stands."""

    OPEN = "open"
    NEEDS_PROMPT = "needs_prompt"
    GRANTED = "granted"
    REFUSED = "refused"
    LOST = "lost"
    UNSENT = "unsent"
    CANCELLED = "cancelled"


class ImpossibleTransition(Exception):
    """The shell fed an event that cannot happen in this state: a defect, never a client's doing."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, by whom, and how long it may take. Fixed for the life of the call."""

    correlation_id: str
    tenant: str
    session: str
    tool: str
    arguments: dict[str, Any]
    budget: Budget
    started_ms: float
    started_wall_ms: int
    trace_id: str
    purpose: str | None = None
    max_age_ms: int = 0
    wanted_accuracy_m: float | None = None

    @property
    def deadline_ms(self) -> float:
        """When the clients' edges must have answered, so that the caller has its answer."""
        return self.started_ms + self.budget.budget_ms

    @property
    def last_resort_ms(self) -> float:
        """When the brain ends the call by itself, if guards and leases have all missed it."""
        return self.started_ms + BRAIN_BUDGET_MS

    def wall_ms(self, now: float) -> int:
        """A time of the monotonic clock as wall-clock milliseconds."""
        return self.started_wall_ms + round(now - self.started_ms)


# --- actions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendAsk:
    """Ask this client; its edge must have answered within `budget_ms`."""

    client: ClientRecord
    may_prompt: bool
    budget_ms: int


@dataclass(frozen=True, slots=True)
class SendCancel:
    """This client's answer is no longer needed."""

    client: ClientRecord
    reason: Literal["settled", "cancelled", "deadline"]


@dataclass(frozen=True, slots=True)
class Journal:
    """Write this line."""

    entry: JournalEntry


@dataclass(frozen=True, slots=True)
class Wake:
    """Call `tick` at this time; replaces an earlier wish."""

    at_ms: float


@dataclass(frozen=True, slots=True)
class Ignored:
    """A result that does not count, for the counter."""

    cause: Literal["late", "stranger", "repeated"]


@dataclass(frozen=True, slots=True)
class Settle:
    """The call is over: the parts from which the answer is built.

    `reason` None: `result` of `client` is the answer. `everyone`: what each asked client came to; `every`: the caller
    wants them all.
    """

    reason: Reason | None
    client: ClientRecord | None
    result: ClientResult | None
    dispatched: bool
    elapsed_ms: int
    conflict: bool = False
    everyone: tuple[Grant | Refusal, ...] = ()
    every: bool = False


Action = SendAsk | SendCancel | Journal | Wake | Ignored | Settle


@dataclass(slots=True)
class Ask:
    """One client asked within the call."""

    client: ClientRecord
    may_prompt: bool
    asked_at_ms: float
    state: AskState = AskState.OPEN
    reported: ClientState | None = None
    seen: bool = True
    """False once it is certain that the ask never left the brain."""
    judged: Grant | Refusal | None = None


@dataclass(slots=True)
class Call:
    """See the module's text. Build it with the plan of `routing.plan`, then `start` it."""

    request: Request
    plan: Plan
    state: CallState = CallState.NEW
    asks: dict[str, Ask] = field(default_factory=dict)
    """By connection: one client has one live connection, and a new one is a new place to ask."""
    window_ends_ms: float | None = None
    lost_edges: set[str] = field(default_factory=set)
    _wake_ms: float | None = None

    # --- events -----------------------------------------------------------------------------------------------------

    def start(self, now: float) -> list[Action]:
        """Ask the first clients, or settle at once when there is nobody."""
        if self.state is not CallState.NEW:
            raise ImpossibleTransition(f"start in {self.state}")
        self.state = CallState.ASKING
        if self.plan.is_empty:
            return self._settle(now, Refusal(_NOBODY, Reason.NO_CLIENT))
        actions: list[Action] = []
        if now < self.request.deadline_ms:
            for client in self.plan.silent:
                actions += self._ask(now, client, may_prompt=False)
        return actions + self._advance(now)

    def start_without_bus(self, now: float) -> list[Action]:
        """Who could be asked cannot be read: an honest end at once."""
        if self.state is not CallState.NEW:
            raise ImpossibleTransition(f"start in {self.state}")
        self.state = CallState.ASKING
        return self._settle(now, Refusal(_NOBODY, Reason.BUS_LOST))

    def result(self, now: float, result: ClientResult, *, edge: str | None = None) -> list[Action]:
        """A client (or its edge's guard) answered. `edge`: the instance that sent it, when it says so."""
        self._must_have_started("result")
        if self.state is CallState.SETTLED:
            return [Ignored("late")]
        ask = self._asked(result.connection, result.client_id)
        if ask is None or ask.client.epoch != result.epoch or edge not in (None, ask.client.edge):
            return [Ignored("stranger")]
        if ask.state is not AskState.OPEN:
            return [Ignored("repeated")]
        judged = merging.judge(
            self.request.tool,
            ask.client,
            result,
            max_age_ms=self.request.max_age_ms,
            open_for_ms=now - ask.asked_at_ms,
        )
        match judged:
            case NeedsPrompt():
                if ask.may_prompt:
                    # It was allowed to. A copy of the answer to the silent ask before, not an answer to this one.
                    return [Ignored("repeated")]
                ask.state = AskState.NEEDS_PROMPT
            case Grant():
                ask.state, ask.judged = AskState.GRANTED, judged
            case Refusal():
                ask.state, ask.judged = AskState.REFUSED, judged
        return self._advance(now)

    def progress(self, now: float, progress: Progress) -> list[Action]:
        """A client said what it is doing. From anyone not asked, or after the end, it means nothing."""
        self._must_have_started("progress")
        ask = self._asked(progress.connection, progress.client_id)
        if self.state is CallState.SETTLED or ask is None or ask.state is not AskState.OPEN:
            return []
        ask.reported = progress.state
        return self._advance(now)

    def edge_lost(self, now: float, edge: str) -> list[Action]:
        """The lease of an edge lapsed: its clients will not answer through it."""
        self._must_have_started("edge_lost")
        self.lost_edges.add(edge)
        for ask in self._open():
            if ask.client.edge == edge:
                self._lose(ask, Reason.EDGE_LOST)
        return self._advance(now)

    def bus_lost(self, now: float) -> list[Action]:
        """The bus does not answer or lost data: whatever is not known now will not be known in time."""
        self._must_have_started("bus_lost")
        if self.state is CallState.SETTLED:
            return []
        for ask in self._open():
            self._lose(ask, Reason.BUS_LOST)
        return self._settle_with_what_is_known(now, last_word=Reason.BUS_LOST)

    def send_failed(
        self, now: float, connection: str, *, maybe_sent: bool, reason: Reason = Reason.BUS_LOST
    ) -> list[Action]:
        """An ask could not be put on the bus. `maybe_sent`: it may have arrived all the same."""
        self._must_have_started("send_failed")
        ask = self.asks.get(connection)
        if ask is None:
            raise ImpossibleTransition("send_failed for an ask that was never made")
        if self.state is CallState.SETTLED or ask.state is not AskState.OPEN:
            return []
        self._lose(ask, reason, state=AskState.LOST if maybe_sent else AskState.UNSENT)
        return self._advance(now)

    def tick(self, now: float) -> list[Action]:
        """The time of the last `Wake` has come (or passed)."""
        self._must_have_started("tick")
        self._wake_ms = None  # a clock may ring a moment early; then it is wound up again
        return self._advance(now)

    def cancel(self, now: float) -> list[Action]:
        """The caller no longer wants the answer."""
        self._must_have_started("cancel")
        if self.state is CallState.SETTLED:
            return []
        return self._settle(now, Refusal(_NOBODY, Reason.CANCELLED), why="cancelled")

    # --- what follows from where things stand -----------------------------------------------------------------------

    def _advance(self, now: float) -> list[Action]:
        """Settle, go up the ladder, or wait: decided from the state alone, after every event."""
        if self.state is CallState.SETTLED:
            return []
        actions: list[Action] = []
        if now >= self.request.last_resort_ms:
            return self._settle_with_what_is_known(now, why="deadline")
        grants = self._grants()
        if grants and not self.plan.every:
            if self.window_ends_ms is None:
                self.window_ends_ms = now + merging.WINDOW_MS
                self.state = CallState.CHOOSING
            # Only silent asks can still better it in time: a prompt that a person reads takes seconds.
            others = any(not ask.may_prompt for ask in self._open())
            chosen_by_ms = min(self.window_ends_ms, self.request.deadline_ms)
            if now >= chosen_by_ms or not others:
                return self._settle_with_what_is_known(now)
            return self._wake(chosen_by_ms)
        if now < self.request.deadline_ms and self._prompt_is_due(now):
            candidates = self._prompt_candidates()
            if candidates:
                actions += self._ask(now, candidates[0], may_prompt=True)
        if not self._open():
            return actions + self._settle_with_what_is_known(now)
        return actions + self._wake(self._next_wake(now))

    def _prompt_is_due(self, now: float) -> bool:
        """One prompt at most, and only when those who need none cannot answer soon."""
        if any(ask.may_prompt and ask.seen for ask in self.asks.values()):
            return False
        open_asks = self._open()
        if not open_asks:
            return True
        if any(ask.reported is ClientState.ACQUIRING for ask in open_asks):
            return False
        return now >= self.request.started_ms + self.plan.prompt_after_ms

    def _prompt_candidates(self) -> list[ClientRecord]:
        """Who could still be asked with a prompt: the plan's, and tabs that said they would need one, best first."""
        unasked = [c for c in self.plan.prompt if c.connection not in self.asks]
        turned = [a.client for a in self.asks.values() if a.state is AskState.NEEDS_PROMPT and a.client.kind == "tab"]
        return sorted((c for c in unasked + turned if c.edge not in self.lost_edges), key=preference)

    def _next_wake(self, now: float) -> float:
        """The ladder's next rung, or the last resort: at the deadline the edges' guards answer, not this clock."""
        rung = self.request.started_ms + self.plan.prompt_after_ms
        waits_for_rung = (
            now < rung < self.request.deadline_ms
            and self._prompt_candidates()
            and not any(a.may_prompt for a in self.asks.values())
        )
        return rung if waits_for_rung else self.request.last_resort_ms

    def _settle_with_what_is_known(
        self,
        now: float,
        *,
        why: Literal["settled", "cancelled", "deadline"] = "settled",
        last_word: Reason = Reason.DEADLINE,
    ) -> list[Action]:
        grants = self._grants()
        if grants:
            return self._settle(now, merging.best(grants, self.request.wanted_accuracy_m), why=why)
        told = merging.most_telling(self._refusals())
        return self._settle(now, told or Refusal(_NOBODY, last_word), why=why)

    def _refusals(self) -> list[Refusal]:
        """Each ask as a refusal: what it answered, or what is known of it while it is still out."""
        refusals = []
        for ask in self.asks.values():
            match ask.state:
                case AskState.REFUSED | AskState.LOST | AskState.UNSENT:
                    assert isinstance(ask.judged, Refusal)
                    refusals.append(ask.judged)
                case AskState.NEEDS_PROMPT:
                    # It was never asked with a prompt: another tab was, or the time was up. True, and the least telling.
                    refusals.append(Refusal(ask.client, Reason.PERMISSION_REQUIRED))
                case AskState.OPEN:
                    refusals.append(Refusal(ask.client, merging.reason_of_state(ask.reported) or Reason.DEADLINE))
                case AskState.GRANTED | AskState.CANCELLED:
                    pass
        return refusals

    def _settle(
        self,
        now: float,
        outcome: Grant | Refusal,
        *,
        why: Literal["settled", "cancelled", "deadline"] = "settled",
    ) -> list[Action]:
        if self.state is CallState.SETTLED:
            raise ImpossibleTransition("settled twice")
        everyone: tuple[Grant | Refusal, ...] = (*self._grants(), *self._refusals())
        actions: list[Action] = []
        for ask in self._open():
            ask.state = AskState.CANCELLED
            actions.append(SendCancel(ask.client, why))
        self.state = CallState.SETTLED
        client = None if outcome.client is _NOBODY else outcome.client
        reason = outcome.reason if isinstance(outcome, Refusal) else None
        settle = Settle(
            reason=reason,
            client=client,
            result=outcome.result,
            dispatched=any(ask.seen for ask in self.asks.values()),
            elapsed_ms=max(0, round(now - self.request.started_ms)),
            conflict=reason is None
            and self.request.tool == LOCATION_GET
            and merging.in_conflict([g for g in everyone if isinstance(g, Grant)]),
            everyone=everyone,
            every=self.plan.every,
        )
        return [*actions, settle]

    # --- small helpers ----------------------------------------------------------------------------------------------

    def _asked(self, connection: str, client_id: str) -> Ask | None:
        """The ask of this client. Its connection may have changed since: the edge lets a new socket answer only with
        the secret of the old one, and says which edge and epoch it is itself."""
        ask = self.asks.get(connection)
        if ask is None:
            ask = next((a for a in self.asks.values() if a.client.client_id == client_id), None)
        return ask if ask is not None and ask.client.client_id == client_id else None

    def _ask(self, now: float, client: ClientRecord, *, may_prompt: bool) -> list[Action]:
        self.asks[client.connection] = Ask(client, may_prompt, now)
        budget_ms = max(1, int(self.request.deadline_ms - now))
        entry = JournalEntry(
            kind=JournalKind.ASKED,
            correlation_id=self.request.correlation_id,
            tenant=self.request.tenant,
            at_ms=self.request.wall_ms(now),
            by="brain",
            session=self.request.session,
            tool=self.request.tool,
            client_kind=client.kind,
            client_id=client.client_id,
            deadline_ms=self.request.wall_ms(self.request.deadline_ms),
            budget_ms=budget_ms,
            trace_id=self.request.trace_id,
            purpose=self.request.purpose,
        )
        return [SendAsk(client, may_prompt, budget_ms), Journal(entry)]

    def _lose(self, ask: Ask, reason: Reason, *, state: AskState = AskState.LOST) -> None:
        ask.state = state
        ask.seen = state is not AskState.UNSENT
        ask.judged = Refusal(ask.client, reason)

    def _wake(self, at_ms: float) -> list[Action]:
        if at_ms == self._wake_ms:
            return []
        self._wake_ms = at_ms
        return [Wake(at_ms)]

    def _open(self) -> list[Ask]:
        return [ask for ask in self.asks.values() if ask.state is AskState.OPEN]

    def _grants(self) -> list[Grant]:
        return [ask.judged for ask in self.asks.values() if isinstance(ask.judged, Grant)]

    def _must_have_started(self, event: str) -> None:
        if self.state is CallState.NEW:
            raise ImpossibleTransition(f"{event} before start")

    @property
    def open_edges(self) -> set[str]:
        """The edges that still hold an open ask of this call."""
        return {ask.client.edge for ask in self._open()}


_NOBODY = ClientRecord(
    tenant="",
    session=None,
    user=None,
    kind="tab",
    client_id="",
    connection="",
    edge="",
    epoch=0,
    since_ms=0,
    active_at_ms=0,
    tools=[],
)
"""Stands where an outcome has no client; never leaves this file."""


def asks_of(actions: Iterable[Action]) -> list[SendAsk]:
    """The asks among actions."""
    return [a for a in actions if isinstance(a, SendAsk)]
