"""The call's state machine: who is asked when, and how it ends. No clock, no bus."""

from typing import Any

import pytest

from hereabouts.brain.call import (
    AskState,
    Call,
    CallState,
    Ignored,
    ImpossibleTransition,
    Journal,
    Request,
    SendAsk,
    SendCancel,
    Settle,
    Wake,
    asks_of,
)
from hereabouts.brain.deadlines import Budget
from hereabouts.brain.routing import plan, preference
from hereabouts.schemas.bus_messages import ClientState, Progress
from hereabouts.schemas.errors import AmbiguousClient
from hereabouts.schemas.outcomes import WOULD_PROMPT, Reason
from hereabouts.schemas.records import ClientRecord
from hereabouts.schemas.tools import Tool


def a_call(*clients: ClientRecord, tool: str = "location_get", route: str = "best", **fields: Any) -> Call:
    request = Request(
        **{
            "correlation_id": "0190b8a0-0000-7000-8000-000000000000",
            "tenant": "acme",
            "session": "s_1",
            "tool": tool,
            "arguments": {},
            "budget": Budget(5_000),
            "started_ms": 0.0,
            "started_wall_ms": 1_700_000_000_000,
            "trace_id": "0" * 31 + "1",
            **fields,
        }
    )
    return Call(request, plan(tool, clients, route))


def settled(actions: list[Any]) -> Settle:
    found = [action for action in actions if isinstance(action, Settle)]
    assert len(found) == 1, actions
    return found[0]


def asked(actions: list[Any]) -> list[tuple[str, bool]]:
    return [(ask.client.client_id, ask.may_prompt) for ask in asks_of(actions)]


def saying(client: ClientRecord, state: ClientState) -> Progress:
    return Progress(connection=client.connection, client_id=client.client_id, state=state)


# --- routing ---------------------------------------------------------------------------------------------------------


def test_focused_before_visible_before_recent_before_nodes(client: Any) -> None:
    node = client(name="node", kind="node")
    focused = client(name="focused", active_at_ms=1)
    visible = client(name="visible", focused=False, active_at_ms=2)
    recent = client(name="recent", focused=False, visibility="hidden", active_at_ms=9)
    old = client(name="old", focused=False, visibility="hidden", active_at_ms=3)
    expected = [focused, visible, recent, old, node]
    assert sorted([old, node, recent, visible, focused], key=preference) == expected


def test_only_who_registered_the_tool_is_asked(client: Any) -> None:
    call = a_call(client(tools=[]), client(name="b"))
    assert asked(call.start(0)) == [("b", False)]


def test_an_ambiguous_name_lists_candidates(client: Any) -> None:
    with pytest.raises(AmbiguousClient) as caught:
        a_call(client(name="a", label="Phone"), client(name="b", label="PHONE"), route="phone")
    assert [c["client_id"] for c in caught.value.details["candidates"]] == ["a", "b"]


# --- silent first, one prompt at most --------------------------------------------------------------------------------


def test_nobody_settles_at_once() -> None:
    settle = settled(a_call().start(3))
    assert (settle.reason, settle.dispatched, settle.elapsed_ms) == (Reason.NO_CLIENT, False, 3)


def test_a_lone_tab_in_state_prompt_gets_all_of_the_time(client: Any) -> None:
    actions = a_call(client(permission="prompt")).start(0)
    assert asked(actions) == [("tab-1", True)]
    assert asks_of(actions)[0].budget_ms == 5_000
    assert [a.at_ms for a in actions if isinstance(a, Wake)] == [30_000], "the edge's guard keeps the 5 s"


def test_granted_tabs_and_nodes_are_asked_silently_and_prompts_wait(client: Any) -> None:
    call = a_call(client(name="granted"), client(name="node", kind="node"), client(name="prompt", permission="prompt"))
    actions = call.start(0)
    assert asked(actions) == [("granted", False), ("node", False)]
    assert [a.at_ms for a in actions if isinstance(a, Wake)] == [1_000]
    assert asked(call.tick(999)) == []
    actions = call.tick(1_000)
    assert asked(actions) == [("prompt", True)]
    assert asks_of(actions)[0].budget_ms == 4_000


def test_the_prompt_comes_early_when_all_silent_ones_have_refused(client: Any, result: Any) -> None:
    node, tab = client(name="node", kind="node"), client(permission="unknown")
    call = a_call(node, tab)
    call.start(0)
    assert asked(call.result(200, result(node, reason=Reason.LOCATION_DISABLED))) == [("tab-1", True)]


def test_no_prompt_while_a_silent_one_is_acquiring(client: Any, result: Any) -> None:
    node, tab = client(name="node", kind="node"), client(permission="prompt")
    call = a_call(node, tab)
    call.start(0)
    call.progress(500, saying(node, ClientState.ACQUIRING))
    assert asked(call.tick(1_000)) == []
    assert asked(call.result(2_000, result(node, reason=Reason.POSITION_UNAVAILABLE))) == [("tab-1", True)]


def test_only_one_tab_is_asked_with_a_prompt(client: Any, result: Any) -> None:
    one, two = client(name="one", permission="prompt"), client(name="two", permission="prompt", focused=False)
    call = a_call(two, one)
    assert asked(call.start(0)) == [("one", True)]
    assert settled(call.result(100, result(one, reason=Reason.DISMISSED))).reason is Reason.DISMISSED


def test_a_tab_that_would_need_a_prompt_after_all_is_asked_again(client: Any, result: Any) -> None:
    tab = client()
    call = a_call(tab)
    assert asked(call.start(0)) == [("tab-1", False)]
    assert asked(call.result(50, result(tab, reason=WOULD_PROMPT))) == [("tab-1", True)]
    assert call.result(60, result(tab, reason=WOULD_PROMPT)) == [Ignored("repeated")]
    assert settled(call.result(900, result(tab))).client is tab


def test_would_prompt_never_leaves_the_brain(client: Any, result: Any) -> None:
    shown, other = client(name="shown", permission="prompt"), client(name="other", focused=False)
    call = a_call(shown, other)
    call.start(0)
    assert asked(call.result(50, result(other, reason=WOULD_PROMPT))) == [("shown", True)]
    settle = settled(call.result(100, result(shown, reason=Reason.UNSUPPORTED)))
    assert settle.reason is Reason.PERMISSION_REQUIRED


def test_denied_and_switched_off_tabs_are_asked_without_a_prompt(client: Any) -> None:
    call = a_call(client(name="denied", permission="denied"), client(name="off", permission="prompt", sharing="off"))
    assert asked(call.start(0)) == [("denied", False), ("off", False)]


# --- merging ---------------------------------------------------------------------------------------------------------


def test_a_first_position_waits_150_ms_for_other_silent_ones(client: Any, result: Any, fix: Any) -> None:
    one, two = client(name="one"), client(name="two")
    call = a_call(one, two, wanted_accuracy_m=100.0)
    call.start(0)
    actions = call.result(300, result(one, fix=fix(accuracy=900.0)))
    assert call.state is CallState.CHOOSING
    assert [a.at_ms for a in actions if isinstance(a, Wake)] == [450]
    assert settled(call.result(400, result(two, fix=fix(accuracy=30.0)))).client is two


def test_the_window_ends(client: Any, result: Any) -> None:
    one, two = client(name="one"), client(name="two")
    call = a_call(one, two)
    call.start(0)
    call.result(300, result(one))
    actions = call.tick(450)
    assert settled(actions).client is one
    assert [(a.client.client_id, a.reason) for a in actions if isinstance(a, SendCancel)] == [("two", "settled")]


def test_no_window_for_a_prompt_that_is_out(client: Any, result: Any) -> None:
    node, tab = client(name="node", kind="node"), client(permission="prompt")
    call = a_call(node, tab)
    call.start(0)
    call.tick(1_000)
    actions = call.result(1_500, result(node))
    assert settled(actions).client is node
    assert [a.client.client_id for a in actions if isinstance(a, SendCancel)] == ["tab-1"]


def test_what_does_not_count_lets_the_others_answer(client: Any, result: Any, fix: Any) -> None:
    one, two = client(name="one"), client(name="two")
    call = a_call(one, two)
    call.start(0)
    call.result(10, result(one, fix=fix(latitude=0.0, longitude=0.0)))
    assert settled(call.result(20, result(two))).client is two


def test_a_conflict_is_told(client: Any, result: Any, fix: Any) -> None:
    one, two = client(name="one"), client(name="two")
    call = a_call(one, two)
    call.start(0)
    call.result(10, result(one))
    assert settled(call.result(20, result(two, fix=fix(latitude=40.0)))).conflict is True


# --- whose result counts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [{"epoch": 2}, {"client_id": "other"}])
def test_a_strangers_result_does_not_count(client: Any, result: Any, wrong: dict[str, Any]) -> None:
    tab = client()
    call = a_call(tab)
    call.start(0)
    assert call.result(1, result(tab, **wrong)) == [Ignored("stranger")]
    assert call.result(1, result(tab), edge="edge_other") == [Ignored("stranger")]
    assert settled(call.result(2, result(tab), edge="edge_1")).reason is None


def test_an_edge_may_hand_an_ask_to_the_clients_next_socket(client: Any, result: Any) -> None:
    tab = client()
    call = a_call(tab)
    call.start(0)
    assert settled(call.result(1, result(tab, connection="c_next"), edge="edge_1")).client is tab


def test_a_result_counts_once_and_none_after_the_end(client: Any, result: Any) -> None:
    one, two = client(name="one"), client(name="two")
    call = a_call(one, two)
    call.start(0)
    call.result(1, result(one, reason=Reason.TIMEOUT))
    assert call.result(2, result(one)) == [Ignored("repeated")]
    settled(call.result(3, result(two)))
    assert call.result(4, result(two)) == [Ignored("late")]


# --- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (None, Reason.DEADLINE),
        (ClientState.PROMPT_OPEN, Reason.PROMPT_OPEN),
        (ClientState.WAITING_FOR_USER, Reason.PROMPT_OPEN),
        (ClientState.ACQUIRING, Reason.ACQUIRING),
        (ClientState.TAB_HIDDEN, Reason.TAB_HIDDEN),
    ],
)
def test_the_last_resort_tells_what_is_known(client: Any, state: ClientState | None, reason: Reason) -> None:
    tab = client()
    call = a_call(tab)
    call.start(0)
    if state is not None:
        call.progress(10, saying(tab, state))
    assert not any(isinstance(action, Settle) for action in call.tick(5_000)), "the guard's answer may be on its way"
    actions = call.tick(30_000)
    assert settled(actions).reason is reason
    assert [a.reason for a in actions if isinstance(a, SendCancel)] == ["deadline"]
    assert call.tick(31_000) == []


def test_a_lost_edge_takes_only_its_own_clients(client: Any, result: Any) -> None:
    here, there = client(name="here"), client(name="there", edge="edge_2")
    call = a_call(here, there)
    call.start(0)
    assert call.open_edges == {"edge_1", "edge_2"}
    assert call.edge_lost(10, "edge_2") == []
    assert call.open_edges == {"edge_1"}
    assert settled(call.result(20, result(here, reason=Reason.TIMEOUT))).reason is Reason.EDGE_LOST


def test_an_edge_that_is_lost_gets_no_prompt(client: Any) -> None:
    silent, prompt = client(name="silent"), client(name="prompt", permission="prompt")
    call = a_call(silent, prompt)
    call.start(0)
    assert settled(call.edge_lost(10, "edge_1")).reason is Reason.EDGE_LOST


def test_a_lost_bus_ends_the_call_with_what_is_known(client: Any, result: Any) -> None:
    one, two = client(name="one"), client(name="two")
    call = a_call(one, two)
    call.start(0)
    assert settled(call.bus_lost(10)).reason is Reason.BUS_LOST
    call = a_call(one, two)
    call.start(0)
    call.result(5, result(one))
    assert settled(call.bus_lost(10)).client is one


def test_an_ask_that_never_left_was_not_dispatched(client: Any) -> None:
    one, two = client(name="one", permission="prompt"), client(name="two", permission="prompt", focused=False)
    call = a_call(one, two)
    call.start(0)
    assert asked(call.send_failed(1, one.connection, maybe_sent=False)) == [("two", True)]
    settle = settled(call.send_failed(2, two.connection, maybe_sent=False))
    assert (settle.reason, settle.dispatched) == (Reason.BUS_LOST, False)


def test_an_ask_that_may_have_left_was_the_one_prompt(client: Any) -> None:
    one, two = client(name="one", permission="prompt"), client(name="two", permission="prompt", focused=False)
    call = a_call(one, two)
    call.start(0)
    settle = settled(call.send_failed(1, one.connection, maybe_sent=True))
    assert (settle.reason, settle.dispatched) == (Reason.BUS_LOST, True)


def test_a_cancel_reaches_every_open_ask(client: Any) -> None:
    call = a_call(client(name="one"), client(name="two"))
    call.start(0)
    actions = call.cancel(5)
    assert settled(actions).reason is Reason.CANCELLED
    assert {(a.client.client_id, a.reason) for a in actions if isinstance(a, SendCancel)} == {
        ("one", "cancelled"),
        ("two", "cancelled"),
    }
    assert {ask.state for ask in call.asks.values()} == {AskState.CANCELLED}
    assert call.cancel(6) == []


def test_events_before_the_start_and_a_second_start_are_impossible(client: Any, result: Any) -> None:
    tab = client()
    call = a_call(tab)
    for event in (
        lambda: call.tick(0),
        lambda: call.cancel(0),
        lambda: call.result(0, result(tab)),
        lambda: call.edge_lost(0, "edge_1"),
    ):
        with pytest.raises(ImpossibleTransition):
            event()
    call.start(0)
    with pytest.raises(ImpossibleTransition):
        call.start(1)


def test_asked_is_journalled_with_the_deadline_of_the_hop(client: Any) -> None:
    actions = a_call(client()).start(40)
    entry = next(a.entry for a in actions if isinstance(a, Journal))
    send = next(a for a in actions if isinstance(a, SendAsk))
    assert (entry.kind, entry.client_id, entry.at_ms) == ("asked", "tab-1", 1_700_000_000_040)
    assert (entry.deadline_ms, entry.budget_ms) == (1_700_000_005_000, send.budget_ms)


# --- other tools -----------------------------------------------------------------------------------------------------


def test_another_tool_is_asked_of_the_best_alone(client: Any, result: Any) -> None:
    tool = Tool(name="pick")
    one, two = client(name="one", tools=[tool]), client(name="two", tools=[tool], focused=False)
    call = a_call(two, one, tool="pick")
    assert asked(call.start(0)) == [("one", True)]
    assert settled(call.result(5, result(one, fix=None, payload=[1]))).result.payload == [1]  # type: ignore[union-attr]


def test_route_all_waits_for_everyone(client: Any, result: Any) -> None:
    tool = Tool(name="pick")
    one, two = client(name="one", tools=[tool]), client(name="two", tools=[tool], focused=False)
    call = a_call(one, two, tool="pick", route="all")
    assert sorted(asked(call.start(0))) == [("one", True), ("two", False)]
    assert call.result(5, result(one, fix=None)) == []
    settle = settled(call.result(6, result(two, reason=Reason.CLIENT_ERROR)))
    assert settle.reason is None
    assert {entry.client.client_id for entry in settle.everyone} == {"one", "two"}
