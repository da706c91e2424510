"""One `location_get` with a line that counts the budget down and says what the call waits for."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from hereabouts.client import Hereabouts, LocationAnswer
from hereabouts.schemas.errors import HereaboutsError
from hereabouts.schemas.http import ClientSeen
from hereabouts.schemas.limits import CLIENT_BUDGET_MS, MAX_TIMEOUT_MS
from hereabouts.schemas.tools import LOCATION_GET, LocationArguments

LOOK_S = 0.4
"""How often the line looks at the session's clients: often enough to follow a person, rare enough to cost nothing."""

BAR_COLUMNS = 24


@dataclass(frozen=True, slots=True)
class Wish:
    """What one ask wants."""

    session: str
    purpose: str | None = None
    timeout_ms: float | None = None
    arguments: LocationArguments | None = None

    @property
    def expected_budget_ms(self) -> float:
        """What the brain will most likely give; its answer says what it was."""
        return min(self.timeout_ms or CLIENT_BUDGET_MS, MAX_TIMEOUT_MS)


async def ask(hereabouts: Hereabouts, wish: Wish, console: Console) -> LocationAnswer:
    """Ask, with the live line on a terminal and without it elsewhere.

    Raises:
        HereaboutsError: as the client says.
    """
    call = hereabouts.location(wish.session, wish.arguments, wish.timeout_ms, wish.purpose)
    if not console.is_terminal:
        return await call
    calling = asyncio.create_task(call, name="call")
    line = Line(wish.expected_budget_ms)
    looking = asyncio.create_task(_look(hereabouts, wish.session, line), name="look")
    try:
        with Live(line, console=console, transient=True, refresh_per_second=12):
            return await calling
    finally:
        calling.cancel()
        looking.cancel()
        await asyncio.gather(calling, looking, return_exceptions=True)


async def _look(hereabouts: Hereabouts, session: str, line: "Line") -> None:
    while True:
        with contextlib.suppress(HereaboutsError):  # the call itself says what is wrong
            line.state = waits_for((await hereabouts.get_session(session)).clients)
        await asyncio.sleep(LOOK_S)


def waits_for(clients: Sequence[ClientSeen]) -> str:
    """In words, who can answer and what that needs."""
    able = [client for client in clients if LOCATION_GET in client.tools]
    if not able:
        return "no page or device is connected"
    tabs = [client for client in able if client.kind == "tab"]
    nodes = len(able) - len(tabs)
    words = []
    if nodes:
        words.append(f"{nodes} device{'s' if nodes > 1 else ''} asked")
    if any(tab.permission == "granted" for tab in tabs):
        words.append("the page has permission")
    elif any(tab.permission in ("prompt", "unknown") for tab in tabs):
        hidden = all(tab.visibility == "hidden" for tab in tabs)
        words.append("the page is in the background" if hidden else "the person decides in their page")
    elif tabs:
        words.append("the page's permission is denied")
    return ", ".join(words)


class Line:
    """The live line: a spinner, what the call waits for, a bar that empties, the seconds that are left."""

    def __init__(self, budget_ms: float) -> None:
        self.state = "looking for a page or device"
        self._budget_s = budget_ms / 1000
        self._began = time.monotonic()
        self._spinner = Spinner("dots")

    def __rich__(self) -> Text:
        now = time.monotonic()
        left_s = max(0.0, self._budget_s - (now - self._began))
        full = round(BAR_COLUMNS * left_s / self._budget_s) if self._budget_s else 0
        style = "green" if left_s > self._budget_s / 2 else "yellow" if left_s > self._budget_s / 5 else "red"
        frame = self._spinner.render(now)
        line = Text("  ") if not isinstance(frame, Text) else frame + Text(" ")
        line.append("location_get ", style="bold")
        line.append("━" * full, style=style)
        line.append("─" * (BAR_COLUMNS - full), style="dim")
        line.append(f" {left_s:4.1f} s  " if left_s else " time is up ", style=style)
        line.append(self.state, style="dim")
        return line
