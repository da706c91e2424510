"""Who is asked, in which order, and who may show a prompt. No I/O, no clock.

What clients report of themselves (permission, visibility, focus) decides the order and nothing else: what a client
answers is the truth.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hereabouts.schemas.errors import AmbiguousClient
from hereabouts.schemas.records import ClientRecord
from hereabouts.schemas.tools import LOCATION_GET

BEST = "best"
ALL = "all"

SILENT_FIRST_MS = 1_000
"""How long those who need no prompt are waited for before one tab may prompt: a granted browser with a recent fix
answers well within it, and a person still has 4 of the 5 seconds."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Who is asked at once without a prompt, and who may be asked with one, best first.

    `prompt_after_ms` counts from the start of the call. With `every`, the call waits for all answers.
    """

    silent: tuple[ClientRecord, ...] = ()
    prompt: tuple[ClientRecord, ...] = ()
    prompt_after_ms: int = 0
    every: bool = False

    @property
    def is_empty(self) -> bool:
        """Nobody can be asked."""
        return not self.silent and not self.prompt


def offers(client: ClientRecord, tool: str) -> bool:
    """Whether a client registered the tool."""
    return any(t.name == tool for t in client.tools)


def preference(client: ClientRecord) -> tuple[int, int, int, int, int, str]:
    """Sort key, best first: tabs before nodes; focused, then visible, then most recently active.

    The connection's name breaks what is left of ties, so that two brains choose alike.
    """
    return (
        0 if client.kind == "tab" else 1,
        0 if client.focused and client.visibility == "visible" else 1,
        0 if client.visibility == "visible" else 1,
        -client.active_at_ms,
        -client.since_ms,
        client.connection,
    )


def plan(tool: str, clients: Iterable[ClientRecord], route: str = BEST) -> Plan:
    """Who is asked for this tool.

    Raises:
        AmbiguousClient: `route` names more than one client.
    """
    eligible = sorted((c for c in clients if offers(c, tool)), key=preference)
    if route not in (BEST, ALL):
        eligible = _named(eligible, route)
    if tool == LOCATION_GET:
        return plan_location(eligible)
    if route == ALL:
        # All at once; only the best may put something before the person.
        return Plan(silent=tuple(eligible[1:]), prompt=tuple(eligible[:1]), every=True)
    return Plan(prompt=tuple(eligible[:1]))


def plan_location(eligible: Sequence[ClientRecord]) -> Plan:
    """Silent first, one prompt at most: nodes, and tabs that will not prompt, at once; else one tab with a prompt.

    A tab that denied or that has sharing off says so without a prompt, so it is asked silently too: its answer tells the
    agent why there is no position.
    """
    prompt = tuple(c for c in eligible if may_need_prompt(c))
    silent = tuple(c for c in eligible if not may_need_prompt(c))
    return Plan(silent=silent, prompt=prompt, prompt_after_ms=SILENT_FIRST_MS if silent else 0)


def may_need_prompt(client: ClientRecord) -> bool:
    """Whether asking this client for its location would, by its own report, open a permission prompt."""
    return client.kind == "tab" and client.sharing == "on" and client.permission in ("prompt", "unknown")


def _named(clients: Sequence[ClientRecord], name: str) -> list[ClientRecord]:
    """The one client of this client_id, else of this label."""
    matches = [c for c in clients if c.client_id == name]
    if not matches:
        matches = [c for c in clients if c.label is not None and c.label.casefold() == name.casefold()]
    if len(matches) > 1:
        raise AmbiguousClient(candidates=[{"kind": c.kind, "client_id": c.client_id} for c in matches])
    return matches
