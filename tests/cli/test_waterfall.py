"""A call's marks as rows, an axis and bars; and what a terminal shows of them."""

from rich.console import Console

from hereabouts.cli import show, waterfall
from hereabouts.schemas.answers import AnsweredBy, Untrusted, granted, refused
from hereabouts.schemas.bus_messages import ClientState, JournalEntry, JournalKind
from hereabouts.schemas.fixes import Precision, Source
from hereabouts.schemas.http import InvocationView
from hereabouts.schemas.marks import Mark, Service, SpanKind
from hereabouts.schemas.outcomes import Reason

MS = 1_000_000
COMMON = {"correlation_id": "c-1", "trace_id": "t-1", "elapsed_ms": 1_200, "budget_ms": 5_000, "dispatched": True}


def mark(span: str, parent: str | None, start_ms: float, end_ms: float, error: str | None = None) -> Mark:
    return Mark(
        span_id=span,
        parent_id=parent,
        name=f"span {span}",
        service=Service.BRAIN,
        kind=SpanKind.INTERNAL,
        start_ns=int(start_ms * MS),
        end_ns=int(end_ms * MS),
        error_type=error,
    )


def test_spans_stand_under_their_parents_in_the_order_of_their_start() -> None:
    rows = waterfall.rows(
        [mark("d", "b", 40, 50), mark("c", "a", 60, 70), mark("a", "agent", 10, 100), mark("b", "a", 20, 55)]
    )
    assert [(row.mark.span_id, row.depth) for row in rows] == [("a", 0), ("b", 1), ("d", 2), ("c", 1)]
    assert [waterfall.branch(row) for row in rows] == ["", "├─ ", "│  └─ ", "└─ "]
    assert (rows[2].start_ms, rows[2].end_ms) == (30, 40)


def test_marks_that_name_each_other_or_end_before_they_began_do_no_harm() -> None:
    rows = waterfall.rows([mark("a", None, 0, 10), mark("x", "y", 1, 2), mark("y", "x", 1, 2), mark("b", "a", 9, 3)])
    assert [row.mark.span_id for row in rows] == ["a", "b"]
    assert rows[1].duration_ms == 0
    assert waterfall.rows([]) == []


def test_the_budgets_line_is_on_the_scale_of_a_slow_call_only() -> None:
    fast = waterfall.scale(waterfall.rows([mark("a", None, 0, 12)]), 12, 5_000)
    slow = waterfall.scale(waterfall.rows([mark("a", None, 0, 4_700)]), 4_700, 5_000)
    assert not fast.budget_on_scale
    assert fast.span_ms == 12
    assert slow.budget_on_scale
    assert 0 < slow.column(5_000, 80) <= 79


def test_the_shortest_span_still_has_a_bar_and_none_leaves_the_width() -> None:
    rows = waterfall.rows([mark("a", None, 0, 1_000), mark("b", "a", 999.9, 1_000)])
    axis = waterfall.scale(rows, 1_000, None)
    for row in rows:
        first, length = waterfall.bar(row, axis, 40)
        assert first >= 0
        assert length >= 1
        assert first + length <= 40


def test_times_read_well() -> None:
    assert [waterfall.duration(ms) for ms in (0, 0.34, 4.11, 182.4, 5_000)] == [
        "0 µs",
        "340 µs",
        "4.1 ms",
        "182 ms",
        "5.00 s",
    ]


def shown(what: object, width: int = 110) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(what)
        return console.export_text()


def test_a_position_is_shown_with_its_radius() -> None:
    text = shown(
        show.answer(
            granted(
                latitude=1.25,
                longitude=-2.5,
                accuracy=1_234,
                timestamp="2026-01-01T00:00:00Z",
                received_at="2026-01-01T00:00:00Z",
                precision=Precision.APPROXIMATE,
                source=Source.WIFI,
                answered_by=AnsweredBy(kind="tab", client_id="x"),
                untrusted=Untrusted(label="[bold]not markup[/]"),
                **COMMON,
            )
        )
    )
    for part in ("GRANTED", "1.250000, -2.500000", "1,234 m (approximate, from wifi)", "answered by a tab"):
        assert part in text
    assert "[bold]not markup[/]" in text


def test_a_refusal_says_reason_and_whether_to_ask_again() -> None:
    text = shown(show.answer(refused(Reason.PROMPT_OPEN, **COMMON)))
    assert "PENDING" in text
    assert "prompt_open" in text
    assert "after wait" in text


def view(end_ms: int) -> InvocationView:
    def entry(kind: JournalKind, at_ms: int, **more: object) -> JournalEntry:
        return JournalEntry.model_validate(
            {"kind": kind, "correlation_id": "c-1", "tenant": "dev", "at_ms": 1_000 + at_ms, "by": "brain"} | more
        )

    return InvocationView(
        correlation_id="c-1",
        state="settled",
        tool="location_get",
        status="PENDING",
        reason="prompt_open",
        trace_id="t-1",
        started_at_ms=1_000,
        elapsed_ms=end_ms,
        budget_ms=5_000,
        timeline=[
            entry(JournalKind.ASKED, 1, client_kind="tab", client_id="tab_1", purpose="[red]why[/]", budget_ms=5_000),
            entry(JournalKind.PROGRESS, 20, state=ClientState.PROMPT_OPEN),
            entry(
                JournalKind.SETTLED,
                end_ms,
                status="PENDING",
                reason="prompt_open",
                marks=[mark("a", None, 0, end_ms), mark("b", "a", 5, end_ms - 5, "timeout")],
            ),
        ],
    )


def test_a_slow_call_shows_the_budgets_line_through_every_row() -> None:
    text = shown(show.invocation(view(4_800), Console(width=110)))
    ruler, first, second = [line for line in text.splitlines() if "┊" in line]
    assert ruler.index("┊") == first.index("┊") == second.index("┊")
    assert "5.00 s ┊" in ruler
    assert "prompt open" in text
    assert "[red]why[/]" in text


def test_a_fast_call_says_that_the_budget_is_far_away() -> None:
    text = shown(show.invocation(view(40), Console(width=110)))
    assert "┊" not in text
    assert "the 5.00 s budget lies far right" in text


def test_a_narrow_terminal_keeps_a_bar() -> None:
    assert "━" in shown(show.invocation(view(40), Console(width=70)), width=70)
