"""The read budget by itself: bursts pass, floods owe time, what was asked for is free."""

from hereabouts.edge.read_budget import (
    BURST_BYTES,
    BURST_FRAMES,
    BYTES_PER_S,
    FRAMES_PER_ASK,
    FRAMES_PER_S,
    MAX_EXPECTED_FRAMES,
    ReadBudget,
)


def test_a_burst_passes_and_more_owes_the_time_it_takes() -> None:
    budget = ReadBudget(0)
    assert budget.take(int(BURST_FRAMES), 0, 0) == 0
    assert budget.take(int(FRAMES_PER_S), 0, 0) == 1.0
    assert budget.take(0, 0, 1.0) == 0
    assert budget.take(1, 0, 1.0) == 1 / FRAMES_PER_S


def test_bytes_have_their_own_bucket() -> None:
    budget = ReadBudget(0)
    assert budget.take(1, int(BURST_BYTES), 0) == 0
    assert budget.take(1, int(BYTES_PER_S), 0) == 1.0


def test_saved_time_is_worth_one_burst_only() -> None:
    budget = ReadBudget(0)
    assert budget.take(int(BURST_FRAMES) + 1, 0, 3_600) > 0


def test_answers_at_1500_asks_a_second_are_never_slowed() -> None:
    budget = ReadBudget(0)
    for number in range(15_000):
        budget.expect(64 * 1024)
        assert budget.take(3, 2_000, number / 1_500) == 0


def test_what_asks_grant_does_not_add_up_for_ever() -> None:
    budget = ReadBudget(0)
    for _ in range(int(MAX_EXPECTED_FRAMES) // FRAMES_PER_ASK + 100):
        budget.expect(1)
    assert budget.take(int(MAX_EXPECTED_FRAMES + BURST_FRAMES), 0, 0) == 0
    assert budget.take(1, 0, 0) > 0
