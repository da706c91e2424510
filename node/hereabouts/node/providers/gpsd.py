"""A receiver of this machine or another, through gpsd. The thin shell around `gpsd_json`."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hereabouts.schemas.fixes import Fix
from hereabouts.schemas.node_wire import DesiredAccuracy
from hereabouts.schemas.tools import WANTED_ACCURACY_M

from ..errors import ProviderUnavailable, SettingsError
from .fixed import epoch_ms
from .gpsd_json import PROTOCOL_MAJOR, WATCH, Device, Devices, NotGpsd, Refusal, Tpv, Version, fix_of, parse

log = logging.getLogger(__name__)

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 2947
"""gpsd's port (IANA)."""

CONNECT_TIMEOUT_S = 3.0
"""A host that is there answers in a round trip; one that swallows packets must not use up the caller's time."""

SETTLE_S = 1.2
"""How long to hope for the wanted accuracy once there is a fix: one more cycle of an ordinary receiver. Short, since
the caller's time may end first, and then the fix in hand would be lost."""

IDLE_S = 60.0
"""How long the connection outlives the last question. gpsd closes the receiver when nobody watches, and opening it
again takes seconds; a minute covers an agent that asks twice, and then the receiver may sleep."""

MAX_LINE_BYTES = 65_536
"""gpsd's own limit is 4,096 to 10,240 by version; more is not gpsd."""

NOT_REACHABLE = (
    "gpsd is not reachable; install and start it (systemctl enable --now gpsd.socket), "
    "or name where it runs: provider gpsd:HOST:PORT"
)
NO_DEVICE = "gpsd has no receiver; plug it in and add it: gpsdctl add /dev/ttyUSB0, or DEVICES in /etc/default/gpsd"
WENT_AWAY = "gpsd closed the connection; see its journal (journalctl -u gpsd)"
NOT_GPSD = "what answers there is not gpsd (protocol 3); check the address in provider gpsd:HOST:PORT"
REFUSED = "gpsd refused to report positions; see its journal (journalctl -u gpsd)"


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a connection ended, and what to do."""

    text: str


class GpsdProvider:
    """Positions from gpsd: connected when somebody asks, closed when nobody has asked for a while.

    Args:
        host: where gpsd listens; its protocol knows no password, so across a network it belongs in a tunnel.
        port: its TCP port.
        clock: epoch milliseconds, for the age of a fix.
        idle_s: seconds that the connection outlives the last question.
    """

    def __init__(
        self,
        host: str = DEFAULT_HOST,
        port: int = DEFAULT_PORT,
        *,
        clock: Callable[[], int] = epoch_ms,
        idle_s: float = IDLE_S,
    ) -> None:
        self._address = (host, port)
        self._clock = clock
        self._idle_s = idle_s
        self._opening = asyncio.Lock()
        self._watch: _Watch | None = None
        self._asking = 0
        self._idle: asyncio.TimerHandle | None = None

    async def fix(self, desired_accuracy: DesiredAccuracy, max_age_ms: int) -> Fix:
        """The last fix if it is young enough, else the next; a better one is waited for SETTLE_S at most.

        Raises:
            ProviderUnavailable: no gpsd there, or no receiver; the text says what to do.
        """
        self._asking += 1
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        try:
            watch = await self._watching()
            last = watch.last
            known = None if last is None else fix_of(last, self._clock(), max_age_ms, after_asking=False)
            return known or await self._next(watch, WANTED_ACCURACY_M[desired_accuracy], max_age_ms)
        finally:
            self._asking -= 1
            if self._asking == 0:
                self._idle = asyncio.get_running_loop().call_later(self._idle_s, self._let_go)

    async def aclose(self) -> None:
        """Close the connection."""
        if self._idle is not None:
            self._idle.cancel()
        watch, self._watch = self._watch, None
        if watch is not None:
            await watch.aclose()

    async def _watching(self) -> "_Watch":
        async with self._opening:
            if self._watch is None or self._watch.ended:
                self._watch = await _Watch.open(*self._address)
            return self._watch

    async def _next(self, watch: "_Watch", wanted_m: float, max_age_ms: int) -> Fix:
        loop = asyncio.get_running_loop()
        best: Fix | None = None
        with watch.listen() as reports:
            try:
                async with asyncio.timeout(None) as patience:
                    while best is None or best.accuracy > wanted_m:
                        report = await reports.get()
                        if isinstance(report, Fault):
                            raise ProviderUnavailable(report.text)
                        fix = fix_of(report, self._clock(), max_age_ms, after_asking=True)
                        if fix is None:
                            continue
                        if best is None:
                            patience.reschedule(loop.time() + SETTLE_S)
                        if best is None or fix.accuracy <= best.accuracy:
                            best = fix
            except TimeoutError:
                log.debug("the wanted accuracy was not reached")
        if best is None:
            raise AssertionError("patience only ends once there is a fix")
        return best

    def _let_go(self) -> None:
        if self._watch is not None:
            self._watch.hang_up()
            self._watch = None


class _Watch:
    """One connection: what was reported last, and who listens. It ends with the first fault."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.last: Tpv | None = None
        self._reader = reader
        self._writer = writer
        self._devices: frozenset[str] = frozenset()
        self._fault: Fault | None = None
        self._listeners: set[asyncio.Queue[Tpv | Fault]] = set()
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, host: str, port: int) -> "_Watch":
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                reader, writer = await asyncio.open_connection(host, port, limit=MAX_LINE_BYTES)
        except (OSError, TimeoutError, UnicodeError):
            raise ProviderUnavailable(NOT_REACHABLE) from None
        writer.write(WATCH)
        return cls(reader, writer)

    @property
    def ended(self) -> bool:
        """Nothing more will be reported."""
        return self._task.done()

    @contextlib.contextmanager
    def listen(self) -> Iterator[asyncio.Queue[Tpv | Fault]]:
        """The reports from now on, and the fault that ends them."""
        reports: asyncio.Queue[Tpv | Fault] = asyncio.Queue()
        if self._fault is not None:
            reports.put_nowait(self._fault)
        self._listeners.add(reports)
        try:
            yield reports
        finally:
            self._listeners.discard(reports)

    def hang_up(self) -> None:
        """Close without waiting for it."""
        self._task.cancel()
        self._writer.close()

    async def aclose(self) -> None:
        """Close and wait until it is."""
        self.hang_up()
        await asyncio.gather(self._task, return_exceptions=True)
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                self._take(line)
            text = WENT_AWAY
        except OSError:
            text = WENT_AWAY
        except ValueError:  # a line without an end
            text = NOT_GPSD
        except _Ended as end:
            text = end.text
        self._fault = Fault(text)
        for reports in self._listeners:
            reports.put_nowait(self._fault)
        self._writer.close()

    def _take(self, line: bytes) -> None:
        try:
            report = parse(line)
        except NotGpsd:
            raise _Ended(NOT_GPSD) from None
        if isinstance(report, Version) and report.major != PROTOCOL_MAJOR:
            raise _Ended(NOT_GPSD)
        if isinstance(report, Refusal):
            raise _Ended(REFUSED)
        if isinstance(report, Devices):
            self._has(report.paths)
        elif isinstance(report, Device):
            self._has(self._devices | {report.path} if report.active else self._devices - {report.path})
        elif isinstance(report, Tpv):
            self.last = report
            for reports in self._listeners:
                reports.put_nowait(report)

    def _has(self, devices: frozenset[str]) -> None:
        if not devices:
            raise _Ended(NO_DEVICE)
        self._devices = devices


class _Ended(Exception):
    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(text)


def gpsd_from(rest: str) -> GpsdProvider:
    """A provider from what follows `gpsd:` in its short form: nothing, HOST, or HOST:PORT ([::1]:2947 for IPv6).

    Raises:
        SettingsError: not such a form.
    """
    host, port = rest, ""
    if rest.startswith("["):
        host, bracket, after = rest[1:].partition("]")
        port = after.removeprefix(":")
        well_formed = bool(host) and bool(bracket) and (after == "" or (after.startswith(":") and port != ""))
    else:
        host, colon, port = rest.partition(":")
        well_formed = not colon or port != ""
    if not well_formed or (port and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536)):
        raise SettingsError("provider: write gpsd, gpsd:HOST or gpsd:HOST:PORT (IPv6 in brackets: gpsd:[::1]:2947)")
    return GpsdProvider(host or DEFAULT_HOST, int(port) if port else DEFAULT_PORT)
