"""A call's lines from several processes stand in the order of causes."""

import pytest

from hereabouts.schemas.bus_messages import JournalEntry, JournalKind, in_order

KINDS = (JournalKind.ASKED, JournalKind.DELIVERED, JournalKind.ANSWERED, JournalKind.SETTLED)


def line(kind: JournalKind, at_ms: int, client: str | None = "tab") -> JournalEntry:
    return JournalEntry(kind=kind, correlation_id="c", tenant="t", at_ms=at_ms, by="brain", client_id=client)


@pytest.mark.parametrize("edge_is_off_ms", [-4, -2, -1, 0, 1, 2, 4])
def test_clocks_that_differ_by_little_do_not_turn_a_story_round(edge_is_off_ms: int) -> None:
    told = [
        line(JournalKind.ASKED, 100),
        line(JournalKind.DELIVERED, 100 + edge_is_off_ms),
        line(JournalKind.ANSWERED, 101 + edge_is_off_ms),
        line(JournalKind.SETTLED, 101),
    ]
    assert [entry.kind for entry in in_order(told)] == list(KINDS)


def test_a_second_ask_of_the_same_client_stays_behind_its_first_answer() -> None:
    first = [line(kind, at_ms) for kind, at_ms in zip(KINDS[:3], (100, 101, 102), strict=True)]
    second = [line(kind, at_ms) for kind, at_ms in zip(KINDS, (103, 104, 105, 106), strict=True)]
    assert in_order([*second, *first]) == [*first, *second]


def test_lines_that_ride_on_the_settled_one_are_unfolded() -> None:
    settled = line(JournalKind.SETTLED, 104).model_copy(update={"earlier": [line(JournalKind.DELIVERED, 101)]})
    assert [entry.kind for entry in in_order([line(JournalKind.ASKED, 100), settled])] == [
        JournalKind.ASKED,
        JournalKind.DELIVERED,
        JournalKind.SETTLED,
    ]
