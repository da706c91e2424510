"""The open asks, driven through any order of events: each is answered once, by its guard at the latest, by its owner only."""

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from hereabouts.bus.port import Message
from hereabouts.edge.asks import MAX_REPORTS, NAME_MARK, Asks
from hereabouts.edge.dialect import Outcome
from hereabouts.edge.effects import Deliver, Effect, Late, Replace, Result, Told, Withdraw
from hereabouts.edge.open_ask import AskRequest, ReplyTo
from hereabouts.schemas.bus_messages import ClientState, Kind
from hereabouts.schemas.limits import GUARD_MARGIN_MS, RESULT_MEMORY_MS
from hereabouts.schemas.marks import TraceContext
from hereabouts.schemas.outcomes import Reason, Status
from hereabouts.schemas.records import ClientRecord
from hereabouts.schemas.tools import Tool

TOOLS = ("location_get", "other")
CLIENTS = ("a", "b")
BRAINS = ("brain_1", "brain_2")
SECRET = "secret of {}"


def record(client_id: str, tools: tuple[str, ...] = TOOLS, **fields: Any) -> ClientRecord:
    base: dict[str, Any] = {
        "tenant": "t",
        "session": "s",
        "user": None,
        "kind": "tab",
        "client_id": client_id,
        "connection": "",
        "edge": "",
        "epoch": 0,
        "since_ms": 0,
        "active_at_ms": 0,
        "tools": [Tool(name=name) for name in tools],
    }
    return ClientRecord.model_validate(base | fields)


def request(correlation_id: str, connection: str, client_id: str, **fields: Any) -> AskRequest:
    inbox = fields.pop("inbox", BRAINS[0])
    message = Message(Kind.ASK, correlation_id, "t", b"{}", reply_to=inbox)
    context = TraceContext.new()
    values: dict[str, Any] = {
        "tool": "location_get",
        "params": {},
        "left_ms": 5_000.0,
        "may_prompt": True,
    }
    return AskRequest(
        correlation_id=correlation_id,
        tenant="t",
        connection=connection,
        client_id=client_id,
        span=context,
        reply_to=ReplyTo(message, context, 0, 0),
        **(values | fields),
    )


class AsksMachine(RuleBasedStateMachine):
    """The model: which sockets live, which asks each of them was shown, what each brain still waits for."""

    asked: Bundle[tuple[str, str]] = Bundle("asked")

    @initialize()
    def begin(self) -> None:
        self.asks = Asks()
        self.now = 0.0
        self.sockets: dict[str, str] = {}
        self.number = 0
        self.waiting: dict[tuple[str, str], Counter[str]] = {}
        self.deadline: dict[tuple[str, str], float] = {}
        self.would_prompt: dict[tuple[str, str], bool] = {}
        self.shown: dict[tuple[str, str], str] = {}
        self.settled: dict[tuple[str, str], float] = {}
        for client in CLIENTS:
            self.connect(client, None)

    # --- carrying out -----------------------------------------------------------------------------------------------

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Deliver(connection, invoke):
                    assert connection in self.sockets, "a dead socket never gets an ask"
                    client = self.sockets[connection]
                    key = (invoke.correlation_id, client)
                    forgotten = self.now - self.settled.get(key, -RESULT_MEMORY_MS) >= RESULT_MEMORY_MS
                    assert forgotten or (invoke.may_prompt and self.would_prompt[key]), "nobody is asked twice"
                    assert invoke.budget_ms > 0
                    self.shown[key] = connection
                    self.settled.pop(key, None)
                case Result(ask, outcome, _, replies):
                    key = ask.request.key
                    for reply in replies:
                        assert self.waiting[key][reply.inbox] > 0, "an answer that nobody waits for"
                        self.waiting[key][reply.inbox] = 0
                    if ask.answered_ms == self.now:  # not a repetition, and not for a socket that is unknown
                        self.settled[key] = self.now
                        self.would_prompt[key] = outcome.reason == "would_prompt"
                case Replace(connection):
                    self.sockets.pop(connection)
                case Withdraw(connection, _, _):
                    assert connection in self.sockets
                case Told(ask, _, _):
                    assert ask.request.key not in self.settled
                case Late(ask, _):
                    assert ask.answered_ms is not None
                    assert ask.answered_ms <= self.now

    def connect(self, client: str, resume: str | None, tools: tuple[str, ...] = TOOLS) -> None:
        self.number += 1
        name = f"c{self.number}"
        effects = self.asks.register(name, record(client, tools), resume, SECRET.format(client), self.now)
        self.sockets[name] = self.name_of(name)
        self.carry_out(effects)
        assert len(set(self.sockets.values())) == len(self.sockets), "two sockets are two clients"

    def name_of(self, connection: str) -> str:
        slot = self.asks.slot(connection)
        assert slot is not None
        return slot.record.client_id

    def sockets_of(self, client: str) -> list[str]:
        """Of all that say they are this client."""
        return [name for name, who in self.sockets.items() if who.partition(NAME_MARK)[0] == client]

    # --- events -----------------------------------------------------------------------------------------------------

    @rule(
        target=asked,
        client=st.sampled_from(CLIENTS),
        call=st.integers(0, 5),
        brain=st.sampled_from(BRAINS),
        left=st.sampled_from([-5.0, 0.0, 40.0, 400.0, 5_000.0]),
        tool=st.sampled_from([*TOOLS, "unknown"]),
        may_prompt=st.booleans(),
        wait=st.sampled_from([0, 10_000]),
        stale=st.booleans(),
    )
    def ask(
        self, client: str, call: int, brain: str, left: float, tool: str, may_prompt: bool, wait: int, stale: bool
    ) -> tuple[str, str]:
        live = self.sockets_of(client)
        connection = "c0" if stale or not live else live[call % len(live)]
        client = self.sockets.get(connection, client)
        key = (f"call{call}", client)
        wanted = request(
            key[0],
            connection,
            client,
            inbox=brain,
            left_ms=left,
            tool=tool,
            may_prompt=may_prompt,
            wait="user" if wait else "no",
            wait_ms=wait,
        )
        opens = not any(ask.request.key == key for ask in self.asks._open.values())
        self.waiting.setdefault(key, Counter())[brain] += 1
        self.carry_out(self.asks.ask(wanted, self.now))
        if opens and key in self.asks._open:
            self.deadline[key] = self.now + max(left, GUARD_MARGIN_MS) + wait
        elif opens:
            assert self.waiting[key][brain] == 0, "expired or unknown: answered at once"
        return key

    @rule(key=asked, status=st.sampled_from(list(Status)), stranger=st.booleans())
    def answer(self, key: tuple[str, str], status: Status, stranger: bool) -> None:
        for name, client in list(self.sockets.items()):
            if (client == key[1]) is stranger:
                continue
            reason: Any = None if status is Status.GRANTED else "would_prompt"
            is_open = key in self.asks._open
            owner = is_open and self.asks._open[key].owner == name and self.shown.get(key) == name
            theirs = (key[0], client) in self.asks._open
            verdict, effects = self.asks.answer(name, key[0], Outcome(status=status, reason=reason), self.now)
            if not theirs:
                assert verdict != "accepted", "a result from one that was not asked counts for nothing"
            if owner and client == key[1]:
                assert verdict == "accepted"
            self.carry_out(effects)
            return

    @rule(key=asked, state=st.sampled_from(list(ClientState)))
    def progress(self, key: tuple[str, str], state: ClientState) -> None:
        for name, client in list(self.sockets.items()):
            if client == key[1]:
                self.carry_out(self.asks.progress(name, key[0], state, None, self.now))

    @rule(key=asked, brain=st.sampled_from([*BRAINS, ""]))
    def cancel(self, key: tuple[str, str], brain: str) -> None:
        was_open = key in self.asks._open
        if was_open:
            for name in BRAINS:
                if not brain or name == brain:
                    self.waiting[key][name] = 0
        self.carry_out(self.asks.cancel(key[0], key[1], "t", brain, "cancelled", self.now))
        if was_open and key not in self.asks._open:
            self.settled[key] = self.now
            self.would_prompt[key] = False

    @rule(key=asked, status=st.sampled_from(list(Status)))
    def decide(self, key: tuple[str, str], status: Status) -> None:
        for name, client in list(self.sockets.items()):
            if client == key[1]:
                self.carry_out(self.asks.decided(name, key[0], status, self.now))

    @rule(client=st.sampled_from(CLIENTS), knows=st.booleans(), tools=st.sampled_from([TOOLS, ()]))
    def reconnect(self, client: str, knows: bool, tools: tuple[str, ...]) -> None:
        self.connect(client, SECRET.format(client) if knows else "guess", tools)

    @rule(client=st.sampled_from(CLIENTS), tools=st.sampled_from([TOOLS, ("location_get",), ()]))
    def register(self, client: str, tools: tuple[str, ...]) -> None:
        for name in self.sockets_of(client):
            self.carry_out(self.asks.register(name, record(client, tools), None, SECRET.format(client), self.now))
            assert self.name_of(name) == self.sockets[name]
            return

    @rule(client=st.sampled_from(CLIENTS), politely=st.booleans())
    def leave(self, client: str, politely: bool) -> None:
        for name in self.sockets_of(client):
            if politely:  # its socket stays, it only leaves the directory
                self.carry_out(self.asks.unregister(name, self.now))
                del self.sockets[name]
            else:
                del self.sockets[name]
                self.carry_out(self.asks.disconnect(name, self.now))
            return

    @rule(ms=st.sampled_from([1.0, 50.0, 300.0, 5_000.0, 70_000.0]))
    def pass_time(self, ms: float) -> None:
        end = self.now + ms
        while (at := self.asks.next_guard_ms) is not None and at <= end:
            self.now = max(self.now, at)
            self.carry_out(self.asks.due(self.now))
        self.now = end

    # --- what always holds ------------------------------------------------------------------------------------------

    @invariant()
    def open_asks_are_waited_for_and_in_time(self) -> None:
        for key, ask in getattr(self, "asks", Asks())._open.items():
            assert ask.replies
            assert self.now <= self.deadline[key] + GUARD_MARGIN_MS
            assert ask.owner is None or ask.owner in self.sockets

    @invariant()
    def what_is_settled_is_gone(self) -> None:
        asks: Asks = getattr(self, "asks", Asks())
        assert sum(len(clients) for clients in asks._clients_of_call.values()) == len(asks)
        assert len(asks) == 0 or asks.next_guard_ms is not None

    def teardown(self) -> None:
        if not hasattr(self, "asks"):
            return
        self.pass_time(20_000.0)
        assert len(self.asks) == 0
        assert all(not any(counts.values()) for counts in self.waiting.values()), "every brain had its answer"
        for name in list(self.sockets):
            self.carry_out(self.asks.disconnect(name, self.now))
        assert self.asks.away == 0
        assert not self.asks._now_at
        assert not self.asks._at


TestAsksMachine = AsksMachine.TestCase
TestAsksMachine.settings = settings(max_examples=400, stateful_step_count=50, deadline=None)


# --- single behaviours ----------------------------------------------------------------------------------------------


def connected(client: str = "a", **fields: Any) -> Asks:
    asks = Asks()
    asks.register("c1", record(client, **fields), None, "secret", 0)
    return asks


def only(effects: list[Effect], kind: type[Any]) -> Any:
    [found] = [effect for effect in effects if isinstance(effect, kind)]
    return found


def test_the_client_gets_what_is_left_minus_the_way_back() -> None:
    deliver = only(connected().ask(request("x", "c1", "a", left_ms=4_000), 10), Deliver)
    assert deliver.invoke.budget_ms == 3_700


def test_the_guard_answers_just_before_the_budget_ends() -> None:
    asks = connected()
    asks.ask(request("x", "c1", "a", left_ms=4_000), 10)
    assert asks.next_guard_ms == 3_910
    assert asks.due(3_909) == []
    assert only(asks.due(3_910), Result).outcome.reason is Reason.CLIENT_SILENT


def test_an_ask_that_comes_too_late_is_answered_at_once_and_the_client_is_not_asked() -> None:
    asks = connected()
    [result] = asks.ask(request("x", "c1", "a", left_ms=0), 10)
    assert isinstance(result, Result)
    assert (result.outcome.status, result.outcome.reason) == (Status.UNAVAILABLE, Reason.CLIENT_SILENT)
    assert result.by_guard
    assert [reply.inbox for reply in result.replies] == [BRAINS[0]]
    assert len(asks) == 0
    only(asks.ask(request("x", "c1", "a"), 20), Deliver)  # the same in time is an ask


def test_a_state_is_told_once_and_changes_are_told_so_often_only() -> None:
    asks = connected()
    asks.ask(request("x", "c1", "a"), 0)
    only(asks.progress("c1", "x", ClientState.PROMPT_OPEN, None, 1), Told)
    assert asks.progress("c1", "x", ClientState.PROMPT_OPEN, "again", 2) == []
    states = [ClientState.ACQUIRING, ClientState.PROMPT_OPEN] * MAX_REPORTS
    told = [effect for state in states for effect in asks.progress("c1", "x", state, None, 3)]
    assert len(told) == MAX_REPORTS - 1


def test_a_second_tab_of_the_same_name_is_a_client_of_its_own_and_resumes_as_itself() -> None:
    asks = connected()
    asks.register("c2", record("a"), "guessed", "secret 2", 0)
    slot = asks.slot("c2")
    assert slot is not None
    assert slot.record.client_id == "a:2"
    for connection, name in (("c1", "a"), ("c2", "a:2")):
        assert only(asks.ask(request("x", connection, name), 1), Deliver).connection == connection
    asks.disconnect("c2", 2)
    effects = asks.register("c3", record("a"), "secret 2", "secret 3", 3)
    assert only(effects, Deliver).connection == "c3"
    resumed = asks.slot("c3")
    assert resumed is not None
    assert resumed.record.client_id == "a:2"
    verdict, _ = asks.answer("c1", "x", Outcome(Status.GRANTED), 4)
    assert verdict == "accepted"
    verdict, effects = asks.answer("c3", "x", Outcome(Status.GRANTED), 5)
    assert verdict == "accepted"
    assert only(effects, Result).ask.request.client_id == "a:2"


def test_a_hidden_tab_is_pending_even_with_its_prompt_open() -> None:
    asks = connected(visibility="hidden")
    asks.ask(request("x", "c1", "a"), 0)
    asks.progress("c1", "x", ClientState.PROMPT_OPEN, None, 5)
    assert only(asks.due(5_000), Result).outcome.reason is Reason.TAB_HIDDEN


def test_a_tab_that_is_acquiring_is_pending() -> None:
    asks = connected()
    asks.ask(request("x", "c1", "a"), 0)
    asks.progress("c1", "x", ClientState.ACQUIRING, None, 5)
    assert only(asks.due(5_000), Result).outcome.reason is Reason.ACQUIRING


def test_the_budget_stands_still_while_the_person_decides() -> None:
    asks = connected()
    asks.ask(request("x", "c1", "a", wait="user", wait_ms=60_000), 0)
    asks.progress("c1", "x", ClientState.PROMPT_OPEN, None, 1_000)
    asks.progress("c1", "x", ClientState.WAITING_FOR_USER, None, 1_500)
    assert asks.due(30_000) == []
    asks.progress("c1", "x", ClientState.ACQUIRING, None, 31_000)
    assert asks.next_guard_ms == 31_000 + 3_900
    again = asks.progress("c1", "x", ClientState.PROMPT_OPEN, None, 32_000)
    assert isinstance(again[0], Told)
    assert asks.next_guard_ms == 32_000 + 2_900 + 30_000
    assert only(asks.due(64_900), Result).outcome.reason is Reason.PROMPT_OPEN


def test_without_wait_a_prompt_does_not_stop_the_clock() -> None:
    asks = connected()
    asks.ask(request("x", "c1", "a", wait="no", wait_ms=60_000), 0)
    asks.progress("c1", "x", ClientState.PROMPT_OPEN, None, 1_000)
    assert asks.next_guard_ms == 4_900


def test_a_resumed_ask_is_sent_again_with_what_is_left_once_its_tool_is_there() -> None:
    asks = connected()
    asks.ask(request("x", "c1", "a"), 0)
    assert asks.disconnect("c1", 1_000) == []
    assert asks.register("c2", record("a", ()), "secret", "next", 2_000) == []
    deliver = only(asks.register("c2", record("a"), None, "next", 2_100), Deliver)
    assert (deliver.connection, deliver.invoke.budget_ms) == ("c2", 2_600)
    assert asks.answer("c2", "x", Outcome(Status.GRANTED), 2_200)[0] == "accepted"


def test_an_ask_for_the_earlier_socket_goes_to_the_one_that_took_over() -> None:
    asks = connected()
    asks.register("c2", record("a"), "secret", "next", 1)
    assert only(asks.ask(request("x", "c1", "a"), 2), Deliver).connection == "c2"


def test_a_tab_that_comes_back_again_and_again_leaves_nothing_behind() -> None:
    asks = connected()
    for number in range(2, 30):
        asks.register(f"c{number}", record("a"), "secret", "secret", number)
    assert only(asks.ask(request("x", "c28", "a"), 40), Deliver).connection == "c29"
    assert only(asks.ask(request("y", "c2", "a"), 40), Result).outcome.reason is Reason.NOT_READY
    asks.drain(41)
    asks.disconnect("c29", 42)
    assert not asks._now_at


def test_the_secret_of_another_session_opens_nothing() -> None:
    asks = connected()
    asks.ask(request("x", "c1", "a"), 0)
    asks.disconnect("c1", 1)
    assert asks.register("c2", record("a", session="other"), "secret", "next", 2) == []
    assert only(asks.due(5_000), Result).outcome.reason is Reason.NOT_READY


def test_a_node_that_disconnects_is_not_ready_at_once_and_inherits_nothing() -> None:
    asks = Asks()
    node = record("n", kind="node", session=None, user="u")
    asks.register("c1", node, None, None, 0)
    asks.ask(request("x", "c1", "n"), 0)
    assert only(asks.disconnect("c1", 1), Result).outcome.reason is Reason.NOT_READY
    assert asks.away == 0


def test_a_node_never_takes_over_even_with_a_secret() -> None:
    asks = Asks()
    node = record("n", kind="node", session=None, user="u")
    asks.register("c1", node, None, "secret", 0)
    asks.ask(request("x", "c1", "n"), 0)
    effects = asks.register("c2", node, "secret", None, 1)
    assert only(effects, Result).outcome.reason is Reason.NOT_READY
    assert only(effects, Replace).connection == "c1"
    assert asks.answer("c2", "x", Outcome(Status.GRANTED), 2)[0] == "ignored"


def test_another_tenant_never_reaches_a_client() -> None:
    asks = connected()
    foreign = replace(request("x", "c1", "a"), tenant="other")
    assert only(asks.ask(foreign, 0), Result).outcome.reason is Reason.NOT_READY


def test_leave_to_prompt_after_would_prompt_is_no_duplicate() -> None:
    asks = connected()
    asks.ask(request("x", "c1", "a", may_prompt=False), 0)
    asks.answer("c1", "x", Outcome(Status.UNAVAILABLE, "would_prompt"), 1)
    assert only(asks.ask(request("x", "c1", "a", may_prompt=True), 2), Deliver).invoke.may_prompt is True


def test_leave_to_prompt_while_the_silent_ask_is_out_is_passed_on() -> None:
    asks = connected()
    asks.ask(request("x", "c1", "a", may_prompt=False), 0)
    assert only(asks.ask(request("x", "c1", "a", may_prompt=True), 2), Deliver).invoke.may_prompt is True
    assert len(asks) == 1


def test_two_brains_that_ask_the_same_both_get_the_answer() -> None:
    asks = connected()
    asks.ask(request("x", "c1", "a", inbox="brain_1"), 0)
    assert asks.ask(request("x", "c1", "a", inbox="brain_2"), 1) == []
    result = only(asks.answer("c1", "x", Outcome(Status.GRANTED), 2)[1], Result)
    assert [reply.inbox for reply in result.replies] == ["brain_1", "brain_2"]


def test_answers_are_forgotten_after_a_minute() -> None:
    asks = connected()
    asks.ask(request("x", "c1", "a"), 0)
    asks.answer("c1", "x", Outcome(Status.GRANTED), 1)
    assert only(asks.ask(request("x", "c1", "a"), 60_000), Result).outcome.status is Status.GRANTED
    assert isinstance(asks.ask(request("x", "c1", "a"), 60_001)[0], Deliver)


def test_a_decision_long_after_pending_is_still_known() -> None:
    asks = connected()
    asks.ask(request("x", "c1", "a"), 0)
    asks.progress("c1", "x", ClientState.PROMPT_OPEN, None, 1)
    asks.due(4_900)
    assert only(asks.decided("c1", "x", Status.DECLINED, 400_000), Late).status is Status.DECLINED
    assert asks.decided("c1", "x", Status.DECLINED, 400_001) == []


def test_a_drain_answers_every_open_ask() -> None:
    asks = connected()
    for call in ("x", "y"):
        asks.ask(request(call, "c1", "a"), 0)
    assert [effect.outcome.reason for effect in asks.drain(1) if isinstance(effect, Result)] == [Reason.NOT_READY] * 2
    assert len(asks) == 0
