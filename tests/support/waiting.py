"""Waiting on a condition, never on a clock."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_EVERY_S = 0.03
LIMIT_S = 20.0


async def until(look: Callable[[], Awaitable[T]], what: str, limit_s: float = LIMIT_S) -> T:
    """The first truthy value that `look` returns.

    Raises:
        AssertionError: none came within `limit_s` seconds; names `what` was waited for.
    """
    end = asyncio.get_running_loop().time() + limit_s
    while True:
        seen = await look()
        if seen:
            return seen
        assert asyncio.get_running_loop().time() < end, (
            f"waited {limit_s:.0f} s in vain for {what}; last seen: {seen!r}"
        )
        await asyncio.sleep(LOOK_EVERY_S)
