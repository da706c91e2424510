"""The pytest plugin: a running Hereabouts and scripted clients as fixtures.

It is loaded in every pytest run of an environment that has this package, so nothing heavy is imported up here.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hereabouts.schemas.http import SessionCreated

    from .stack import Stack
    from .tabs import ScriptedTab

MakeTab = Callable[..., Awaitable["ScriptedTab"]]


@pytest.fixture(scope="session")
def hereabouts_stack() -> "Iterator[Stack]":
    """All of Hereabouts, running, one for the test session (one for each worker of pytest-xdist)."""
    from .stack import Stack

    with Stack() as stack:
        yield stack


@pytest.fixture
async def scripted_tab() -> AsyncIterator[MakeTab]:
    """Makes tabs: `tab = await scripted_tab(session, **options)`; connected, bound, registered, closed with the test.

    `session` is what `create_session` returned. Options are those of `ScriptedTab`.
    """
    from .tabs import ScriptedTab

    tabs: list[ScriptedTab] = []

    async def make(session: "SessionCreated", **options: Any) -> ScriptedTab:
        tab = ScriptedTab(session.socket_url, session.client_token, session.session_id, **options)
        tabs.append(tab)
        await tab.__aenter__()
        return tab

    yield make
    for tab in tabs:
        await tab.close()
