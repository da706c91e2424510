"""How the rooms of the bus talk to a store: commands in, futures out. Redis and the in-memory twin both speak it."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

Argument: TypeAlias = str | bytes | int
Command: TypeAlias = tuple[Argument, ...]
Fields: TypeAlias = dict[bytes, bytes]
Entry: TypeAlias = tuple[bytes, Fields]
"""One stream entry: its id and its fields."""


class Commands(Protocol):
    """Where commands go. All that are given within one turn of the loop leave together, in order."""

    def call(
        self,
        *command: Argument,
        resend: bool = True,
        urgent: bool = False,
        lazy: bool = False,
        convert: Callable[[Any], Any] | None = None,
    ) -> "asyncio.Future[Any]":
        """Give a command.

        Args:
            command: the name and its arguments.
            resend: whether it may be carried out twice (when a connection breaks before the reply came).
            urgent: not counted against the limit (the heartbeat: an overloaded process is not a dead one).
            lazy: nobody waits for it: it may leave a moment later, together with another.
            convert: applied to the reply; what it raises becomes the future's exception.

        Returns:
            A future with the reply as Redis's protocol 2 has it: int, bytes, None or a list. Its exception is
            BusUnavailable or CommandRefused, and raises no warning when nobody looks.

        Raises:
            BusOverloaded: too many commands are waiting.
            BusUnavailable: this end is closed.
        """


def fail(future: "asyncio.Future[Any]", error: Exception) -> None:
    """Fail a future without the warning that an exception nobody looked at would cause."""
    if not future.done():
        future.set_exception(error)
        future.exception()


def entries_of(reply: Any) -> list[Entry]:
    """The entries of an XRANGE or XREVRANGE reply."""
    return [(entry_id, dict(zip(flat[::2], flat[1::2], strict=True))) for entry_id, flat in reply if flat is not None]
