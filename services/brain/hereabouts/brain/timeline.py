"""A call's story from the journal alone: any brain can tell it, also of a call that another has open."""

from hereabouts.schemas.bus_messages import JournalEntry, JournalKind, in_order
from hereabouts.schemas.http import InvocationView
from hereabouts.schemas.ids import time_of


def view(correlation_id: str, entries: list[JournalEntry]) -> InvocationView:
    """Where a call stands. The start is the correlation id's own time.

    Raises:
        ValueError: there are no lines, so nothing can be told.
    """
    if not entries:
        raise ValueError("a call without lines")
    lines = in_order(entries)
    settled = next((line for line in lines if line.kind is JournalKind.SETTLED), None)
    asked = next((line for line in lines if line.kind is JournalKind.ASKED), None)
    first = settled or asked or lines[0]
    return InvocationView(
        correlation_id=correlation_id,
        state="settled" if settled is not None else "open",
        tool=first.tool,
        status=settled.status if settled is not None else None,
        reason=settled.reason if settled is not None else None,
        trace_id=first.trace_id,
        started_at_ms=time_of(correlation_id),
        elapsed_ms=settled.elapsed_ms if settled is not None else None,
        budget_ms=first.budget_ms,
        timeline=lines,
    )
