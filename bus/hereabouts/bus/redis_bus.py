"""The bus on Redis or Valkey."""

from collections.abc import Callable, Sequence

from hereabouts.schemas.records import Role

from .commands import Entry
from .end import BusEnd
from .inbox import Inbox
from .outbox import Outbox
from .sealing import Sealer
from .topology import parse


class RedisBus(BusEnd):
    """Implements port.Bus.

    Args:
        url: see the table in `topology`.
        role: what this process is.
        sealer: seals results and page codes.

    Raises:
        UnsupportedUrl: the URL is none of those.
    """

    def __init__(self, url: str, role: Role, sealer: Sealer) -> None:
        topology = parse(url)
        self._outbox = Outbox(topology, on_down=self._down, on_other_server=self._other_server)

        def make_reader(stream: str, on_entries: Callable[[Sequence[Entry]], None]) -> Inbox:
            return Inbox(topology, stream, on_entries)

        super().__init__(self._outbox, role, sealer, make_reader)

    def problem(self) -> str | None:
        """See port.Bus."""
        problem = super().problem()
        if problem is None and not self._outbox.connected:
            return "the message bus is not connected"
        return problem

    async def _open(self) -> None:
        await self._outbox.open()

    async def _close(self) -> None:
        await self._outbox.close()

    def _down(self) -> None:
        self._heartbeat.wake()

    def _other_server(self) -> None:
        self._heartbeat.suspect()
