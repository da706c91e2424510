"""Answers, stories and waterfalls on a terminal. Text that a client made is shown as text, never as markup."""

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from hereabouts.schemas.answers import Declined, Granted, Pending, Unavailable
from hereabouts.schemas.bus_messages import JournalEntry, JournalKind
from hereabouts.schemas.http import InvocationView
from hereabouts.schemas.marks import Mark, Service

from . import waterfall

Answer = Granted | Declined | Pending | Unavailable

STATUS_STYLES = {"GRANTED": "green", "OK": "green", "DECLINED": "red", "PENDING": "yellow", "UNAVAILABLE": "magenta"}
SERVICE_STYLES = {
    Service.BRAIN: "cyan",
    Service.BROWSER_BRIDGE: "blue",
    Service.NODE_GATEWAY: "blue",
    Service.BROWSER: "magenta",
    Service.NODE: "magenta",
}
MIN_BAR_COLUMNS = 20
NAME_COLUMNS = 46


def answer(found: Answer) -> RenderableType:
    """One answer, readable."""
    style = STATUS_STYLES[found.status.value]
    lines = Table.grid(padding=(0, 2))
    lines.add_column(style="dim", no_wrap=True)
    lines.add_column()
    if isinstance(found, Granted):
        lines.add_row("position", Text(f"{found.latitude:.6f}, {found.longitude:.6f}", style="bold"))
        lines.add_row("accuracy", f"{found.accuracy:,.0f} m ({found.precision.value}, from {found.source.value})")
        lines.add_row("found at", found.timestamp)
        if found.conflict:
            lines.add_row("conflict", Text("two clients reported places that cannot both be true", style="yellow"))
    else:
        lines.add_row("reason", Text(found.reason.value, style=style))
        lines.add_row("retry", found.retry.value.replace("_", " "))
    lines.add_row("message", Text(found.message))
    by = f", answered by a {found.answered_by.kind}" if found.answered_by else ""
    if found.node_code:
        lines.add_row("node code", Text(found.node_code))
    if found.untrusted and found.untrusted.label:
        lines.add_row("calls itself", Text(found.untrusted.label))
    lines.add_row("took", f"{waterfall.duration(found.elapsed_ms)} of {waterfall.duration(found.budget_ms)}{by}")
    lines.add_row("call", Text(found.correlation_id))
    lines.add_row("trace", Text(found.trace_id))
    return Panel(
        lines,
        title=Text(found.status.value, style=f"bold {style}"),
        title_align="left",
        border_style=style,
        box=box.ROUNDED,
    )


def invocation(view: InvocationView, console: Console) -> RenderableType:
    """A call's head, waterfall and story."""
    marks = [mark for entry in view.timeline for mark in entry.marks]
    parts: list[RenderableType] = [_head(view)]
    if marks:
        parts += [Text(), spans(marks, view.elapsed_ms, view.budget_ms, console.width)]
    else:
        parts += [Text(), Text("No spans yet: they come with the settled call.", style="dim")]
    parts += [Text(), story(view)]
    return Group(*parts)


def spans(marks: list[Mark], elapsed_ms: int | None, budget_ms: int | None, width: int) -> RenderableType:
    """The waterfall, with the budget's line."""
    shown = waterfall.rows(marks)
    axis = waterfall.scale(shown, elapsed_ms, budget_ms)
    longest = max(len(waterfall.branch(row)) + len(row.mark.name) for row in shown)
    names = min(NAME_COLUMNS, longest)
    columns = max(MIN_BAR_COLUMNS, width - names - 30)
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, width=names, overflow="ellipsis")
    table.add_column(no_wrap=True, width=14)
    table.add_column(no_wrap=True, width=columns)
    table.add_column(no_wrap=True, justify="right", width=9)
    table.add_row("", "", _ruler(axis, columns), "")
    for row in shown:
        style = SERVICE_STYLES[row.mark.service]
        name = Text(waterfall.branch(row), style="dim") + Text(
            row.mark.name, style="red" if row.mark.error_type else "default"
        )
        table.add_row(
            name,
            Text(row.mark.service.value, style=style),
            _bar(row, axis, columns, style),
            Text(waterfall.duration(row.duration_ms), style="bold" if row.depth == 0 else "default"),
        )
    if axis.budget_ms is None or axis.budget_on_scale:
        return table
    left = Text(f"the {waterfall.duration(axis.budget_ms)} budget lies far right of this scale", style="dim")
    return Group(table, left)


def story(view: InvocationView) -> RenderableType:
    """The journal's lines, each with its time since the call began."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False, header_style="dim")
    table.add_column("after", justify="right", no_wrap=True)
    table.add_column("seen by", no_wrap=True)
    table.add_column("what")
    table.add_column("", style="dim")
    start_ms = view.started_at_ms or (view.timeline[0].at_ms if view.timeline else 0)
    for entry in view.timeline:
        what, more = _told(entry)
        table.add_row(waterfall.duration(max(0, entry.at_ms - start_ms)), Text(entry.by), what, Text(more))
    return table


def _head(view: InvocationView) -> RenderableType:
    line = Text()
    line.append(view.tool or "call", style="bold")
    if view.status:
        line.append(f"  {view.status}", style=f"bold {STATUS_STYLES.get(view.status, 'red')}")
        if view.reason:
            line.append(f" {view.reason}", style=STATUS_STYLES.get(view.status, "red"))
    else:
        line.append("  still open", style="yellow")
    if view.elapsed_ms is not None and view.budget_ms is not None:
        line.append(f"  {waterfall.duration(view.elapsed_ms)} of {waterfall.duration(view.budget_ms)}")
    ids = Text(f"call  {view.correlation_id}\ntrace {view.trace_id or '–'}", style="dim")
    return Group(line, ids)


def _told(entry: JournalEntry) -> tuple[Text, str]:
    client = f"{entry.client_kind or 'client'} {entry.client_id[:12]}" if entry.client_id else ""
    more = [client] if client else []
    match entry.kind:
        case JournalKind.ASKED:
            if entry.budget_ms is not None:
                more.append(f"budget {waterfall.duration(entry.budget_ms)}")
            if entry.purpose:
                more.append(f"“{entry.purpose}”")
            what = Text("asked")
        case JournalKind.DELIVERED:
            what = Text("delivered to the client")
        case JournalKind.PROGRESS:
            what = Text((entry.state.value if entry.state else "progress").replace("_", " "), style="yellow")
        case JournalKind.ANSWERED | JournalKind.LATE | JournalKind.SETTLED:
            what = Text({"late": "decided late: "}.get(entry.kind.value, f"{entry.kind.value} "))
            what.append(entry.status or "", style=STATUS_STYLES.get(entry.status or "", "default"))
            if entry.reason:
                what.append(f" {entry.reason}")
            if entry.accuracy_bucket:
                more.append(entry.accuracy_bucket)
    return what, " · ".join(more)


def _ruler(axis: waterfall.Scale, width: int) -> Text:
    """0 at the left, the axis's end at the right, or the budget where it lies."""
    text = Text(style="dim")
    if axis.budget_ms is not None and axis.budget_on_scale:
        label = f"{waterfall.duration(axis.budget_ms)} "
        at = axis.column(axis.budget_ms, width)
        text.append("0" + label.rjust(max(at - 1, len(label))))
        text.append("┊", style="yellow")
        return text
    return text.append("0" + waterfall.duration(axis.span_ms).rjust(width - 1))


def _bar(row: waterfall.Row, axis: waterfall.Scale, width: int, style: str) -> Text:
    first, length = waterfall.bar(row, axis, width)
    cells = [" "] * width
    styles = ["default"] * width
    if axis.budget_on_scale and axis.budget_ms is not None:
        at = axis.column(axis.budget_ms, width)
        cells[at], styles[at] = "┊", "yellow"
    glyph = "▏" if row.duration_ms == 0 else "━"
    for column in range(first, min(width, first + length)):
        cells[column], styles[column] = glyph, "red" if row.mark.error_type else style
    text = Text()
    for cell, cell_style in zip(cells, styles, strict=True):
        text.append(cell, style=cell_style)
    return text
