"""hypothesis drives one call through any order of events; what must always hold is checked after each."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hereabouts.brain.call import (
    Action,
    AskState,
    Call,
    CallState,
    Ignored,
    Request,
    SendAsk,
    SendCancel,
    Settle,
    Wake,
)
from hereabouts.brain.deadlines import Budget
from hereabouts.brain.routing import plan
from hereabouts.schemas.bus_messages import ClientResult, ClientState, Progress
from hereabouts.schemas.fixes import Fix
from hereabouts.schemas.outcomes import OUTCOMES, WOULD_PROMPT, Reason, Status
from hereabouts.schemas.records import ClientRecord
from hereabouts.schemas.tools import Tool

EDGES = ["edge_1", "edge_2"]


def tab_or_node(number: int, draw: tuple[str, str, str, str, str, bool, int]) -> ClientRecord:
    kind, edge, permission, visibility, sharing, focused, active = draw
    return ClientRecord.model_validate(
        {
            "tenant": "acme",
            "session": "s_1" if kind == "tab" else None,
            "user": "ada",
            "kind": kind,
            "client_id": f"client-{number}",
            "connection": f"c_{number}",
            "edge": edge,
            "epoch": 3,
            "since_ms": 1,
            "active_at_ms": active,
            "tools": [Tool(name="location_get"), Tool(name="pick")],
            "visibility": visibility,
            "focused": focused,
            "permission": permission,
            "sharing": sharing,
        }
    )


clients = st.lists(
    st.tuples(
        st.sampled_from(["tab", "tab", "node"]),
        st.sampled_from(EDGES),
        st.sampled_from(["granted", "denied", "prompt", "unknown"]),
        st.sampled_from(["visible", "hidden"]),
        st.sampled_from(["on", "on", "off"]),
        st.booleans(),
        st.integers(0, 5),
    ),
    max_size=5,
)
outcomes = st.one_of(st.none(), st.sampled_from(Reason), st.just(WOULD_PROMPT))
fixes = st.builds(
    Fix,
    latitude=st.sampled_from([48.2, 47.0, 0.0, 95.0]),
    longitude=st.sampled_from([16.37, 0.0]),
    accuracy=st.sampled_from([5.0, 500.0]),
    timestamp_ms=st.just(1),
    age_ms=st.sampled_from([0, 2_000, 400_000]),
)


class CallMachine(RuleBasedStateMachine):
    """One call and everything that can happen to it."""

    reached_calls: set[CallState] = set()
    reached_asks: set[AskState] = set()

    @initialize(
        drawn=clients,
        budget=st.sampled_from([1, 400, 5_000, 29_000]),
        tool=st.sampled_from(["location_get", "location_get", "pick"]),
        route=st.sampled_from(["best", "best", "all", "client-0"]),
        max_age=st.sampled_from([0, 15_000]),
    )
    def begin(self, drawn: Any, budget: int, tool: str, route: str, max_age: int) -> None:
        self.now = 100.0
        self.clients = [tab_or_node(number, one) for number, one in enumerate(drawn)]
        request = Request(
            correlation_id="0190b8a0-0000-7000-8000-000000000000",
            tenant="acme",
            session="s_1",
            tool=tool,
            arguments={},
            budget=Budget(budget),
            started_ms=self.now,
            started_wall_ms=1_700_000_000_000,
            trace_id="1" * 32,
            max_age_ms=max_age,
        )
        self.call = Call(request, plan(tool, self.clients, route))
        self.settles: list[Settle] = []
        self.sent: list[SendAsk] = []
        self.cancelled: list[str] = []
        self.unsent: set[str] = set()
        self.wake: float | None = None
        self.reached_calls.add(self.call.state)
        self.did(self.call.start(self.now))

    def did(self, actions: list[Action]) -> None:
        for action in actions:
            assert not self.settles, "nothing follows the settlement"
            match action:
                case SendAsk():
                    self.sent.append(action)
                    assert 1 <= action.budget_ms <= self.call.request.budget.budget_ms
                case SendCancel():
                    self.cancelled.append(action.client.connection)
                case Settle():
                    self.settles.append(action)
                case Wake(at_ms):
                    assert at_ms > self.now
                    self.wake = at_ms
                case _:
                    pass
        self.reached_calls.add(self.call.state)
        self.reached_asks.update(ask.state for ask in self.call.asks.values())

    @property
    def is_open(self) -> bool:
        return not self.settles

    # --- events -----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), reason=outcomes, fix=fixes, by_person=st.booleans())
    def a_client_answers(self, data: Any, reason: Any, fix: Fix, by_person: bool) -> None:
        client = data.draw(st.sampled_from(self.clients))
        ask = self.call.asks.get(client.connection)
        was_open = self.is_open and ask is not None and ask.state is AskState.OPEN
        status = OUTCOMES[reason].status if isinstance(reason, Reason) else Status.UNAVAILABLE
        result = ClientResult(
            connection=client.connection,
            client_id=client.client_id,
            epoch=client.epoch,
            status=Status.GRANTED if reason is None else status,
            reason=reason,
            fix=fix if reason is None else None,
            during_call=by_person,
            received_at_ms=1,
        )
        actions = self.call.result(self.now, result, edge=data.draw(st.sampled_from([None, client.edge])))
        if not was_open:
            assert [type(action) for action in actions] == [Ignored]
        self.did([] if not was_open else actions)

    @precondition(lambda self: self.clients)
    @rule(
        data=st.data(),
        wrong=st.sampled_from([{"epoch": 4}, {"client_id": "stranger", "connection": "c_strange"}, {"edge": "edge_9"}]),
    )
    def a_stranger_answers(self, data: Any, wrong: dict[str, Any]) -> None:
        client = data.draw(st.sampled_from(self.clients))
        before = {name: ask.state for name, ask in self.call.asks.items()}
        fields = {"connection": client.connection, "client_id": client.client_id, "epoch": client.epoch} | wrong
        edge = fields.pop("edge", None)
        result = ClientResult(
            **fields, status=Status.DECLINED, reason=Reason.DENIED, fix=None, during_call=True, received_at_ms=1
        )
        actions = self.call.result(self.now, result, edge=edge)
        assert [type(action) for action in actions] == [Ignored]
        assert {name: ask.state for name, ask in self.call.asks.items()} == before

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), state=st.sampled_from(ClientState))
    def a_client_reports(self, data: Any, state: ClientState) -> None:
        client = data.draw(st.sampled_from(self.clients))
        self.did(
            self.call.progress(
                self.now, Progress(connection=client.connection, client_id=client.client_id, state=state)
            )
        )

    @rule(edge=st.sampled_from(EDGES))
    def an_edge_dies(self, edge: str) -> None:
        self.did(self.call.edge_lost(self.now, edge))

    @rule(rarely=st.integers(0, 5))
    def the_bus_is_lost(self, rarely: int) -> None:
        if not rarely:
            self.did(self.call.bus_lost(self.now))

    @precondition(lambda self: self.call.asks)
    @rule(data=st.data(), maybe_sent=st.booleans())
    def an_ask_fails_to_leave(self, data: Any, maybe_sent: bool) -> None:
        connection = data.draw(st.sampled_from(sorted(self.call.asks)))
        was_open = self.is_open and self.call.asks[connection].state is AskState.OPEN
        if was_open and not maybe_sent:
            self.unsent.add(connection)
        self.did(self.call.send_failed(self.now, connection, maybe_sent=maybe_sent))

    @rule(rarely=st.integers(0, 5))
    def the_caller_cancels(self, rarely: int) -> None:
        if not rarely:
            self.did(self.call.cancel(self.now))
            assert self.settles

    @rule(ms=st.sampled_from([0, 1, 40, 149, 150, 600, 1_000]))
    def time_passes(self, ms: int) -> None:
        """The clock goes on; a timer that is due fires first, as the shell lets it."""
        until = self.now + ms
        while self.is_open and self.wake is not None and self.wake <= until:
            self.now, self.wake = self.wake, None
            self.did(self.call.tick(self.now))
        self.now = until

    @rule(late_ms=st.sampled_from([0, 500]))
    def a_stray_tick(self, late_ms: int) -> None:
        self.did(self.call.tick(self.now))

    # --- what always holds ------------------------------------------------------------------------------------------

    @invariant()
    def it_settles_at_most_once(self) -> None:
        assert len(self.settles) <= 1
        assert (self.call.state is CallState.SETTLED) == bool(self.settles)

    @invariant()
    def it_ends_by_the_last_resort(self) -> None:
        if self.now >= self.call.request.last_resort_ms + 1:
            assert self.settles

    @invariant()
    def while_it_is_open_somebody_is_asked_and_a_timer_is_set(self) -> None:
        if self.is_open:
            assert self.call.open_edges
            assert self.wake is not None
            assert self.wake <= self.call.request.last_resort_ms

    @invariant()
    def one_prompt_at_most(self) -> None:
        prompted = {ask.client.connection for ask in self.sent if ask.may_prompt} - self.unsent
        assert len(prompted) <= 1

    @invariant()
    def nothing_stays_open_afterwards(self) -> None:
        if self.settles:
            assert not self.call.open_edges
            cancelled = {name for name, ask in self.call.asks.items() if ask.state is AskState.CANCELLED}
            assert cancelled == set(self.cancelled)

    @invariant()
    def would_prompt_stays_inside(self) -> None:
        for settle in self.settles:
            assert settle.reason is None or settle.reason in OUTCOMES
            assert settle.reason is not None or settle.result is not None

    def teardown(self) -> None:
        if hasattr(self, "call"):
            self.now = max(self.now, self.call.request.last_resort_ms)
            self.did(self.call.tick(self.now))
            assert len(self.settles) == 1


CallMachine.TestCase.settings = settings(max_examples=1_500, stateful_step_count=30, deadline=None)


class TestCall(CallMachine.TestCase):  # type: ignore[misc, name-defined]
    """The machine, and afterwards the states it has been in."""

    def runTest(self) -> None:
        super().runTest()
        assert CallMachine.reached_calls == set(CallState)
        assert CallMachine.reached_asks == set(AskState)
