"""A call's marks as the rows of a waterfall: which span under which, where its bar begins and ends. No terminal here."""

from collections.abc import Sequence
from dataclasses import dataclass

from hereabouts.schemas.marks import Mark

NEAR = 0.4
"""The budget's line is on the scale once the call took this share of it; else it stands at the edge, and the bars have
the width."""


@dataclass(frozen=True, slots=True)
class Row:
    """One span. Offsets are milliseconds from the call's start."""

    mark: Mark
    depth: int
    last: tuple[bool, ...]
    """For each level: whether this branch is the last of its siblings, for the tree's lines."""
    start_ms: float
    end_ms: float

    @property
    def duration_ms(self) -> float:
        """How long it took."""
        return self.end_ms - self.start_ms


@dataclass(frozen=True, slots=True)
class Scale:
    """The time axis: `span_ms` over the whole width; `budget_ms` is drawn when it lies on it."""

    span_ms: float
    budget_ms: float | None

    @property
    def budget_on_scale(self) -> bool:
        """Whether the budget's line is within the axis."""
        return self.budget_ms is not None and self.budget_ms <= self.span_ms

    def column(self, at_ms: float, width: int) -> int:
        """The column of a time, 0 to `width` − 1."""
        return max(0, min(width - 1, int(at_ms / self.span_ms * width)))


def rows(marks: Sequence[Mark]) -> list[Row]:
    """The spans as a tree, depth first, siblings by their start. A span whose parent is not here is a root."""
    if not marks:
        return []
    origin = min(mark.start_ns for mark in marks)
    known = {mark.span_id for mark in marks}
    children: dict[str | None, list[Mark]] = {}
    for mark in sorted(marks, key=lambda one: (one.start_ns, -one.end_ns)):
        children.setdefault(mark.parent_id if mark.parent_id in known else None, []).append(mark)
    found: list[Row] = []
    seen: set[str] = set()

    def add(parent: str | None, last: tuple[bool, ...]) -> None:
        siblings = children.get(parent, [])
        for index, mark in enumerate(siblings):
            if mark.span_id in seen:  # a client's marks could name each other as parents
                continue
            seen.add(mark.span_id)
            here = (*last, index == len(siblings) - 1)
            found.append(
                Row(
                    mark=mark,
                    depth=len(last),
                    last=here,
                    start_ms=(mark.start_ns - origin) / 1e6,
                    end_ms=(max(mark.end_ns, mark.start_ns) - origin) / 1e6,
                )
            )
            add(mark.span_id, here)

    add(None, ())
    return found


def scale(shown: Sequence[Row], elapsed_ms: float | None, budget_ms: float | None) -> Scale:
    """An axis that holds every bar, and the budget's line if the call came near it."""
    longest = max([row.end_ms for row in shown] + [elapsed_ms or 0, 1.0])
    if budget_ms is not None and longest >= budget_ms * NEAR:
        longest = max(longest, budget_ms * 1.02)
    return Scale(longest, budget_ms)


def bar(row: Row, axis: Scale, width: int) -> tuple[int, int]:
    """First column and number of columns of a span's bar; the shortest span still has one."""
    first = axis.column(row.start_ms, width)
    return first, max(1, axis.column(row.end_ms, width) - first)


def branch(row: Row) -> str:
    """The tree's lines before a name."""
    if row.depth == 0:
        return ""
    return "".join("   " if last else "│  " for last in row.last[1:-1]) + ("└─ " if row.last[-1] else "├─ ")


def duration(ms: float) -> str:
    """A time for people: `340 µs`, `4.1 ms`, `182 ms`, `5.00 s`."""
    if ms < 1:
        return f"{ms * 1000:.0f} µs"
    if ms < 10:
        return f"{ms:.1f} ms"
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.2f} s"
