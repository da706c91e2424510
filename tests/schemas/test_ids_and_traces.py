"""Identifiers and trace context: what counts as one, and what is refused."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hereabouts.schemas.fixes import Fix, distance_m, is_plausible
from hereabouts.schemas.ids import is_correlation_id, new_correlation_id, time_of
from hereabouts.schemas.marks import TraceContext


def test_a_correlation_id_tells_its_time() -> None:
    before = time.time_ns() // 1_000_000
    made = time_of(new_correlation_id())
    assert before <= made <= time.time_ns() // 1_000_000


def test_correlation_ids_do_not_repeat() -> None:
    assert len({new_correlation_id() for _ in range(10_000)}) == 10_000


@given(st.text())
def test_any_text_is_judged_without_an_error(text: str) -> None:
    assert is_correlation_id(text) in (True, False)
    parsed = TraceContext.parse(text)
    assert parsed is None or len(parsed.trace_id) == 32


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "00-" + "0" * 32 + "-" + "1" * 16 + "-01",
        "00-" + "1" * 32 + "-" + "0" * 16 + "-01",
        "ff-" + "1" * 32 + "-" + "1" * 16 + "-01",
        "00-" + "G" * 32 + "-" + "1" * 16 + "-01",
        "00-" + "1" * 32 + "-" + "1" * 16 + "-01-and-more-than-fits",
    ],
)
def test_a_malformed_traceparent_is_no_context(text: str | None) -> None:
    assert TraceContext.parse(text) is None


def test_a_traceparent_is_continued() -> None:
    context = TraceContext.new()
    parsed = TraceContext.parse(context.traceparent)
    assert parsed == context
    child = context.child()
    assert child.trace_id == context.trace_id
    assert child.span_id != context.span_id


def fix(latitude: float = 10.0, longitude: float = 20.0, accuracy: float = 5.0, age_ms: int = 0) -> Fix:
    return Fix(latitude=latitude, longitude=longitude, accuracy=accuracy, timestamp_ms=0, age_ms=age_ms)


@pytest.mark.parametrize(
    ("made", "plausible"),
    [
        (fix(), True),
        (fix(90, 180), True),
        (fix(90.1, 0), False),
        (fix(0, 180.1), False),
        (fix(0, 0), False),
        (fix(0, 0.1), True),
        (fix(accuracy=-1), False),
        (fix(age_ms=-120_000), True),
        (fix(age_ms=-120_001), False),
        (fix(age_ms=400 * 24 * 3_600_000), False),
    ],
)
def test_what_counts_as_a_position(made: Fix, plausible: bool) -> None:
    assert is_plausible(made) is plausible


def test_distance_over_the_date_line() -> None:
    assert distance_m(fix(0, 179.9), fix(0, -179.9)) == pytest.approx(22_239, rel=0.01)
    assert "10.0" not in repr(fix())
