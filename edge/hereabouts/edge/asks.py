"""The open asks of one process: who owns each, which result counts, what a duplicate gets, and when guards fire.

A state machine without I/O and clock: events and the time (monotonic milliseconds) go in, effects come out. An ask is
answered exactly once: by its client, by its guard, or by what happened to its client.
"""

import hmac
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Literal

from hereabouts.schemas.bus_messages import ClientState
from hereabouts.schemas.limits import JOURNAL_TTL_MS, RESULT_MEMORY_MS
from hereabouts.schemas.outcomes import WOULD_PROMPT, Reason, Status
from hereabouts.schemas.records import ClientRecord

from .dialect import Outcome, Verdict
from .effects import Deliver, Effect, Late, Replace, Result, Told, Withdraw
from .open_ask import AskRequest, OpenAsk, outcome_of

Key = tuple[str, str]
Identity = tuple[str, str | None, str]

MAX_REMEMBERED = 20_000
"""Answers that one process remembers for duplicates: at 300 calls a second a minute's worth. Beyond, the oldest goes."""


@dataclass(slots=True)
class Slot:
    """A client as this process knows it: its registration, the socket that speaks for it now, and those before."""

    connection: str
    record: ClientRecord
    """With the name that tells this client from others which say the same of themselves."""
    claimed: Identity
    """Who it says it is, under which a newer socket may take over."""
    resume: str | None
    alive: bool = True
    keys: set[Key] = field(default_factory=set)
    earlier: list[str] = field(default_factory=list)

    def has_tool(self, name: str) -> bool:
        """Whether the client registered this tool."""
        return any(tool.name == name for tool in self.record.tools)


@dataclass(slots=True)
class _Answered:
    ask: OpenAsk
    outcome: Outcome | None
    """None once the answer itself is forgotten and only a late decision is still of interest."""
    by_guard: bool
    until_ms: float


class Asks:
    """See the module. Methods that may change anything return the effects to carry out, in order."""

    def __init__(self) -> None:
        self._open: dict[Key, OpenAsk] = {}
        self._clients_of_call: dict[str, set[str]] = {}
        self._slots: dict[str, Slot] = {}
        self._away: dict[Identity, dict[str, Slot]] = {}
        self._at: dict[Identity, set[str]] = {}
        self._now_at: dict[str, str] = {}
        self._guards: list[tuple[float, int, Key, OpenAsk]] = []
        self._guard_number = 0
        self._answers: OrderedDict[Key, _Answered] = OrderedDict()
        self._undecided: OrderedDict[Key, _Answered] = OrderedDict()

    # --- what is known ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._open)

    @property
    def slots(self) -> Iterable[Slot]:
        """Every client with a live socket."""
        return self._slots.values()

    @property
    def away(self) -> int:
        """Clients without a socket whose open asks still wait for them."""
        return sum(len(there) for there in self._away.values())

    def slot(self, connection: str) -> Slot | None:
        """The client that this socket speaks for, once registered."""
        return self._slots.get(connection)

    def ask_of(self, connection: str, correlation_id: str) -> OpenAsk | None:
        """The open ask that this socket owns."""
        slot = self._slots.get(connection)
        return self._owned(slot, correlation_id) if slot else None

    @property
    def next_guard_ms(self) -> float | None:
        """When `due` is next wanted."""
        while self._guards:
            at_ms, _, key, ask = self._guards[0]
            if self._open.get(key) is ask and ask.guard_at_ms == at_ms:
                return at_ms
            heappop(self._guards)
        return None

    # --- clients come and go ----------------------------------------------------------------------------------------

    def register(
        self, connection: str, record: ClientRecord, resume: str | None, resume_next: str | None, now_ms: float
    ) -> list[Effect]:
        """A client's registration as it now stands; a shown `resume` secret takes over the older socket's open asks.

        Asks whose tool the client no longer has are answered `no_client`; those it inherited are sent again once it
        has registered their tool. A tab that says it is another one that is here, without its secret, is a client of
        its own under a name of its own (`Slot.record.client_id`): a duplicated tab copies the id too.
        """
        effects: list[Effect] = []
        slot = self._slots.get(connection)
        claimed = record.tenant, record.session, record.client_id
        if slot is not None and slot.claimed != claimed:
            effects += self._give_up(slot, slot.keys, now_ms)
            self._leave(slot)
            self._forget_names(slot)
            slot = None
        if slot is None:
            older = self._older(record, claimed, resume) if resume is not None else None
            name = older.record.client_id if older else self._free_name(record, claimed)
            record = record.model_copy(update={"client_id": name})
            slot = self._slots[connection] = Slot(connection, record, claimed, resume_next)
            self._at.setdefault(claimed, set()).add(connection)
            if record.kind == "node":
                effects += self._end_older(slot, now_ms)
            elif older is not None:
                effects += self._take_over(slot, older)
        lost = {
            key for key in slot.keys if self._open[key].delivered_ms is not None and self._open[key].owner == connection
        }
        slot.record = record.model_copy(update={"client_id": slot.record.client_id})
        slot.resume = resume_next if resume_next is not None else slot.resume
        effects += self._give_up(slot, {key for key in lost if not slot.has_tool(self._open[key].request.tool)}, now_ms)
        for key in sorted(slot.keys):
            ask = self._open[key]
            if ask.delivered_ms is None and slot.has_tool(ask.request.tool):
                effects.append(self._deliver(ask, slot, now_ms))
        return effects

    def unregister(self, connection: str, now_ms: float) -> list[Effect]:
        """The client left of its own will: nothing is kept for it."""
        slot = self._slots.get(connection)
        if slot is None:
            return []
        self._leave(slot)
        self._forget_names(slot)
        return self._give_up(slot, slot.keys, now_ms)

    def disconnect(self, connection: str, now_ms: float) -> list[Effect]:
        """The socket is gone. A client that may resume keeps its open asks until their guards; another's are answered."""
        slot = self._slots.get(connection)
        if slot is None:
            return []
        self._leave(slot)
        if not slot.keys or slot.resume is None or slot.record.kind == "node":
            self._forget_names(slot)
            return [
                effect
                for key in sorted(slot.keys)
                for effect in self._settle(self._open[key], outcome_of(Reason.NOT_READY), now_ms, by_guard=True)
            ]
        for key in slot.keys:
            self._open[key].owner = None
            self._open[key].delivered_ms = None
        self._away.setdefault(slot.claimed, {})[slot.record.client_id] = slot
        return []

    # --- asks -------------------------------------------------------------------------------------------------------

    def ask(self, request: AskRequest, now_ms: float) -> list[Effect]:
        """One client is to be asked. Duplicates join an open ask or get the answer that was given."""
        self._expire(now_ms)
        open_ask = self._open.get(request.key)
        if open_ask is not None and open_ask.request.tenant == request.tenant:
            return self._join(open_ask, request, now_ms)
        answered = self._answers.get(request.key)
        if answered is not None and answered.outcome is not None and answered.ask.request.tenant == request.tenant:
            asks_anew = answered.outcome.reason == WOULD_PROMPT and request.may_prompt
            if not asks_anew:
                return [Result(answered.ask, answered.outcome, answered.by_guard, [request.reply_to])]
        if request.left_ms <= 0:
            # Said at once: a brain that still waits would wait for its last resort, and the client never sees it.
            late = OpenAsk.of(request, None, now_ms)
            return [Result(late, outcome_of(Reason.CLIENT_SILENT), True, late.replies)]
        return self._begin(request, now_ms)

    def answer(
        self, connection: str, correlation_id: str, outcome: Outcome, now_ms: float
    ) -> tuple[Verdict, list[Effect]]:
        """A result frame: counts once, and only from the socket that owns the ask."""
        slot = self._slots.get(connection)
        ask = self._owned(slot, correlation_id) if slot else None
        if ask is not None:
            return "accepted", self._settle(ask, outcome, now_ms, by_guard=False)
        if slot is not None and (late := self._take_undecided(slot, correlation_id)):
            return "ignored", [Late(late, outcome.status)]
        return ("not_yours" if correlation_id in self._clients_of_call else "ignored"), []

    def progress(
        self, connection: str, correlation_id: str, state: ClientState, prompt: str | None, now_ms: float
    ) -> list[Effect]:
        """A client's word on an open ask of its own; a repetition, one word too many and anything else is nothing."""
        ask = self.ask_of(connection, correlation_id)
        if ask is None or ask.state is state or ask.reports >= MAX_REPORTS:
            return []
        before = ask.guard_at_ms
        ask.report(state, now_ms)
        if ask.guard_at_ms != before:
            self._set_guard(ask)
        return [Told(ask, state, prompt)]

    def decided(self, connection: str, correlation_id: str, status: Status, now_ms: float) -> list[Effect]:
        """What the person decided after PENDING had been answered."""
        self._expire(now_ms)
        slot = self._slots.get(connection)
        if slot is None or status is Status.PENDING:
            return []
        late = self._take_undecided(slot, correlation_id)
        return [Late(late, status)] if late else []

    def cancel(
        self,
        correlation_id: str,
        client_id: str,
        tenant: str,
        inbox: str,
        reason: Literal["settled", "cancelled", "deadline"],
        now_ms: float,
    ) -> list[Effect]:
        """A brain no longer needs the ask; the last one to say so ends it. No answer is sent.

        An empty `inbox` speaks for all brains.
        """
        ask = self._open.get((correlation_id, client_id))
        if ask is None or ask.request.tenant != tenant:
            return []
        ask.replies = [reply for reply in ask.replies if inbox and reply.inbox != inbox]
        if ask.replies:
            return []
        owner = ask.owner if ask.delivered_ms is not None else None
        self._settle(ask, outcome_of(Reason.CANCELLED), now_ms, by_guard=True)
        return [Withdraw(owner, correlation_id, reason)] if owner else []

    def due(self, now_ms: float) -> list[Effect]:
        """Guards whose time has come answer for their clients."""
        effects: list[Effect] = []
        while (at_ms := self.next_guard_ms) is not None and at_ms <= now_ms:
            ask = heappop(self._guards)[3]
            slot = self._slots.get(ask.owner) if ask.owner else None
            hidden = slot is not None and slot.record.kind == "tab" and slot.record.visibility == "hidden"
            effects += self._settle(ask, ask.guard_outcome(hidden), now_ms, by_guard=True)
            if ask.owner and ask.delivered_ms is not None:
                effects.append(Withdraw(ask.owner, ask.request.correlation_id, "deadline"))
        self._expire(now_ms)
        return effects

    def drain(self, now_ms: float) -> list[Effect]:
        """This process is about to end: every open ask is answered, since the client reconnects elsewhere."""
        return [
            effect
            for ask in list(self._open.values())
            for effect in self._settle(ask, outcome_of(Reason.NOT_READY), now_ms, by_guard=True)
        ]

    # --- inside -----------------------------------------------------------------------------------------------------

    def _begin(self, request: AskRequest, now_ms: float) -> list[Effect]:
        connection = self._now_at.get(request.connection, request.connection)
        slot = self._slots.get(connection)
        known = (
            slot is not None
            and slot.record.tenant == request.tenant
            and slot.record.client_id == request.client_id
            and (slot.has_tool(request.tool) or connection != request.connection)
        )
        ask = OpenAsk.of(request, connection if known else None, now_ms)
        if slot is None or not known:
            is_here = slot is not None and (slot.record.tenant, slot.record.client_id) == (
                request.tenant,
                request.client_id,
            )
            reason = Reason.NO_CLIENT if is_here else Reason.NOT_READY
            return [Result(ask, outcome_of(reason), True, ask.replies)]
        ask.session, ask.kind = slot.record.session, slot.record.kind
        self._open[request.key] = ask
        self._clients_of_call.setdefault(request.correlation_id, set()).add(request.client_id)
        slot.keys.add(request.key)
        self._set_guard(ask)
        return [self._deliver(ask, slot, now_ms)] if slot.has_tool(request.tool) else []

    def _join(self, ask: OpenAsk, request: AskRequest, now_ms: float) -> list[Effect]:
        if request.reply_to.inbox not in {reply.inbox for reply in ask.replies}:
            ask.replies.append(request.reply_to)
        if request.may_prompt and not ask.may_prompt:
            ask.may_prompt = True
            slot = self._slots.get(ask.owner) if ask.owner else None
            if slot is not None and ask.delivered_ms is not None:
                return [self._deliver(ask, slot, now_ms)]
        return []

    def _deliver(self, ask: OpenAsk, slot: Slot, now_ms: float) -> Deliver:
        ask.delivered_ms = now_ms
        return Deliver(slot.connection, ask.invoke(now_ms))

    def _owned(self, slot: Slot | None, correlation_id: str) -> OpenAsk | None:
        if slot is None:
            return None
        ask = self._open.get((correlation_id, slot.record.client_id))
        return ask if ask is not None and ask.owner == slot.connection and ask.delivered_ms is not None else None

    def _take_undecided(self, slot: Slot, correlation_id: str) -> OpenAsk | None:
        key = (correlation_id, slot.record.client_id)
        late = self._undecided.get(key)
        if late is None or (late.ask.request.tenant, late.ask.session) != (slot.record.tenant, slot.record.session):
            return None
        del self._undecided[key]
        return late.ask

    def _settle(self, ask: OpenAsk, outcome: Outcome, now_ms: float, *, by_guard: bool) -> list[Effect]:
        key = ask.request.key
        if self._open.pop(key, None) is not ask:
            raise AssertionError("an ask is answered once")
        clients = self._clients_of_call[key[0]]
        clients.discard(key[1])
        if not clients:
            del self._clients_of_call[key[0]]
        ask.answered_ms = now_ms
        for slot in self._holders(ask):
            slot.keys.discard(key)
            if not slot.alive and not slot.keys:
                self._drop_away(slot)
        self._remember(key, _Answered(ask, outcome, by_guard, now_ms + RESULT_MEMORY_MS), now_ms)
        return [Result(ask, outcome, by_guard, ask.replies)] if ask.replies else []

    def _holders(self, ask: OpenAsk) -> Iterator[Slot]:
        if ask.owner is not None:
            if (slot := self._slots.get(ask.owner)) is not None:
                yield slot
            return
        request = ask.request
        claimed = request.tenant, ask.session, request.client_id.partition(NAME_MARK)[0]
        if (away := self._away.get(claimed, {}).get(request.client_id)) is not None:
            yield away

    def _give_up(self, slot: Slot, keys: Iterable[Key], now_ms: float) -> list[Effect]:
        effects: list[Effect] = []
        for key in sorted(keys):
            ask = self._open[key]
            shown = ask.delivered_ms is not None
            effects += self._settle(ask, outcome_of(Reason.NO_CLIENT), now_ms, by_guard=True)
            slot.keys.discard(key)
            if shown:
                effects.append(Withdraw(slot.connection, key[0], "cancelled"))
        return effects

    def _older(self, record: ClientRecord, claimed: Identity, secret: str) -> Slot | None:
        """The one of the same tenant, session and client that was given this secret; a node inherits never."""
        if record.kind != "tab":
            return None
        for older in self._namesakes(claimed):
            if older.resume is not None and hmac.compare_digest(older.resume.encode(), secret.encode()):
                return older
        return None

    def _namesakes(self, claimed: Identity) -> list[Slot]:
        here = [self._slots[name] for name in sorted(self._at.get(claimed, ()))]
        return [*here, *self._away.get(claimed, {}).values()]

    def _free_name(self, record: ClientRecord, claimed: Identity) -> str:
        """The client's own name, or with a number if another client of that name is here or may come back."""
        name = record.client_id
        if record.kind == "tab":
            taken = {slot.record.client_id for slot in self._namesakes(claimed)}
            number = 1
            while name in taken:
                number += 1
                name = f"{record.client_id}{NAME_MARK}{number}"
        return name

    def _take_over(self, slot: Slot, older: Slot) -> list[Effect]:
        """What is open at the older socket is the new one's from now on."""
        for key in older.keys:
            ask = self._open[key]
            ask.owner, ask.delivered_ms = slot.connection, None
        slot.keys |= older.keys
        names = [*older.earlier, older.connection]
        slot.earlier = names[-MAX_EARLIER:]
        for name in names[:-MAX_EARLIER]:
            self._now_at.pop(name, None)
        older.keys.clear()
        effects: list[Effect] = []
        if older.alive:
            self._leave(older)
            effects.append(Replace(older.connection))
        else:
            self._not_away(older)
        for name in slot.earlier:
            self._now_at[name] = slot.connection
        return effects

    def _end_older(self, slot: Slot, now_ms: float) -> list[Effect]:
        """A node has one socket: a newer one ends the older, whose open asks are answered and never inherited."""
        effects: list[Effect] = []
        for name in sorted(self._at[slot.claimed] - {slot.connection}):
            if self._slots[name].record.user == slot.record.user:
                effects += [*self.disconnect(name, now_ms), Replace(name)]
        return effects

    def _leave(self, slot: Slot) -> None:
        slot.alive = False
        del self._slots[slot.connection]
        there = self._at[slot.claimed]
        there.discard(slot.connection)
        if not there:
            del self._at[slot.claimed]

    def _forget_names(self, slot: Slot) -> None:
        for name in slot.earlier:
            self._now_at.pop(name, None)

    def _drop_away(self, slot: Slot) -> None:
        self._forget_names(slot)
        self._not_away(slot)

    def _not_away(self, slot: Slot) -> None:
        there = self._away.get(slot.claimed, {})
        if there.get(slot.record.client_id) is slot:
            del there[slot.record.client_id]
            if not there:
                del self._away[slot.claimed]

    def _set_guard(self, ask: OpenAsk) -> None:
        self._guard_number += 1
        heappush(self._guards, (ask.guard_at_ms, self._guard_number, ask.request.key, ask))

    def _remember(self, key: Key, answered: _Answered, now_ms: float) -> None:
        self._answers[key] = answered
        self._answers.move_to_end(key)
        outcome = answered.outcome
        if outcome is not None and (outcome.status is Status.PENDING or answered.by_guard):
            self._undecided[key] = _Answered(answered.ask, None, answered.by_guard, now_ms + JOURNAL_TTL_MS)
            self._undecided.move_to_end(key)
        for memory in (self._answers, self._undecided):
            while len(memory) > MAX_REMEMBERED:
                memory.popitem(last=False)

    def _expire(self, now_ms: float) -> None:
        for memory in (self._answers, self._undecided):
            while memory and next(iter(memory.values())).until_ms <= now_ms:
                memory.popitem(last=False)


MAX_REPORTS = 16
"""Changes of state that an ask may have: each is a message and a journal line, and an honest ask has a handful."""

NAME_MARK = ":"
"""Before the number of a further client of the same name; a tab's own id cannot contain it."""

MAX_EARLIER = 8
"""Earlier sockets of a client under whose name an ask may still arrive: a brain's picture is seconds old at most."""

__all__ = ["Asks", "Slot"]
