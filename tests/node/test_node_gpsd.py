"""The gpsd provider: against a scripted daemon for what a real one seldom does, and against the real one."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from hereabouts.node.errors import LocationFault, NoFixInTime, ProviderUnavailable, SettingsError
from hereabouts.node.grants import AllGranted
from hereabouts.node.location import LocationService
from hereabouts.node.providers import GpsdProvider, provider_from
from hereabouts.node.settings import EnabledMode, LocationSettings
from hereabouts.schemas import node_wire as wire
from hereabouts.schemas.fixes import Source, is_plausible
from hereabouts.schemas.node_wire import DesiredAccuracy

PATIENCE_S = 20.0
NOW_MS = 1_796_083_381_000
VERSION = {"class": "VERSION", "release": "3.22", "proto_major": 3, "proto_minor": 14}
DEVICES = {"class": "DEVICES", "devices": [{"class": "DEVICE", "path": "/dev/ttyUSB0"}]}


def tpv(eph: float = 10.0, second: int = 1, mode: int = 3) -> dict[str, Any]:
    time = f"2026-12-01T00:03:{second:02d}.000Z"
    return {"class": "TPV", "mode": mode, "time": time, "lat": 48.20849, "lon": 16.37208, "eph": eph}


class Daemon:
    """Says what the test says, to whoever connects."""

    def __init__(self) -> None:
        self.port = 0
        self.greeting: list[Any] = [VERSION]
        self.on_watch: list[Any] = [DEVICES]
        self.clients: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        self.gone: asyncio.Queue[bool] = asyncio.Queue()
        self.accepted = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            self.say(writer, *self.greeting)
            if await reader.readline() == b'?WATCH={"enable":true,"json":true}\n':
                self.say(writer, *self.on_watch)
                self.clients.put_nowait(writer)
                await reader.read()
        except OSError:
            pass
        finally:
            writer.close()
            self.gone.put_nowait(True)

    def say(self, writer: asyncio.StreamWriter, *objects: Any) -> None:
        for each in objects:
            writer.write(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\r\n")

    async def client(self) -> asyncio.StreamWriter:
        return await asyncio.wait_for(self.clients.get(), PATIENCE_S)


@asynccontextmanager
async def asking(provider: GpsdProvider) -> AsyncIterator[GpsdProvider]:
    try:
        yield provider
    finally:
        await provider.aclose()


@pytest.fixture
async def daemon() -> AsyncIterator[Daemon]:
    scripted = Daemon()
    async with await asyncio.start_server(scripted.serve, "127.0.0.1", 0) as server:
        scripted.port = server.sockets[0].getsockname()[1]
        yield scripted
        for _ in range(scripted.accepted):
            await asyncio.wait_for(scripted.gone.get(), PATIENCE_S)


@pytest.fixture
async def provider(daemon: Daemon) -> AsyncIterator[GpsdProvider]:
    async with asking(GpsdProvider(port=daemon.port, clock=lambda: NOW_MS)) as made:
        yield made


async def ask(provider: GpsdProvider, wanted: DesiredAccuracy = DesiredAccuracy.BALANCED, max_age_ms: int = 0) -> Any:
    return await asyncio.wait_for(provider.fix(wanted, max_age_ms), PATIENCE_S)


@pytest.mark.parametrize("text", ["gpsd", "gpsd:", "gpsd:host", "gpsd:host:1", "gpsd:[::1]", "gpsd:[::1]:65535"])
def test_short_forms(text: str) -> None:
    assert isinstance(provider_from(text), GpsdProvider)


@pytest.mark.parametrize(
    "text", ["gpsd:host:", "gpsd:host:0", "gpsd:host:65536", "gpsd:host:x", "gpsd:::1", "gpsd:[::1"]
)
def test_what_is_no_short_form_is_said_so(text: str) -> None:
    with pytest.raises(SettingsError, match="gpsd:HOST:PORT"):
        provider_from(text)


async def test_a_fix_with_the_wanted_accuracy_is_taken_at_once(daemon: Daemon, provider: GpsdProvider) -> None:
    daemon.on_watch = [DEVICES, {"class": "TPV", "mode": 1}, tpv(mode=0), tpv(12.5)]

    fix = await ask(provider)

    assert (fix.latitude, fix.longitude, fix.accuracy) == (48.20849, 16.37208, 12.5)
    assert (fix.source, fix.age_ms, fix.timestamp_ms) == (Source.GPS, 0, NOW_MS)


async def test_the_wanted_accuracy_is_waited_for(daemon: Daemon, provider: GpsdProvider) -> None:
    daemon.on_watch = [DEVICES, tpv(80), tpv(24)]

    assert (await ask(provider, DesiredAccuracy.PRECISE)).accuracy == 24


async def test_but_it_is_a_wish_and_the_best_is_told(
    daemon: Daemon, provider: GpsdProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hereabouts.node.providers.gpsd.SETTLE_S", 0.2)
    daemon.on_watch = [DEVICES, tpv(80), tpv(60), tpv(70)]

    assert (await ask(provider, DesiredAccuracy.PRECISE)).accuracy == 60


async def test_the_last_fix_answers_while_it_is_young_enough(daemon: Daemon, provider: GpsdProvider) -> None:
    daemon.on_watch = [DEVICES, tpv(12, second=0)]
    first = await ask(provider)
    client = await daemon.client()

    again = await ask(provider, max_age_ms=1_000)
    fresh = asyncio.create_task(ask(provider, max_age_ms=999))
    await asyncio.sleep(0)
    daemon.say(client, tpv(7))

    assert (first.age_ms, again.age_ms, again.accuracy) == (0, 1_000, 12)
    assert (await fresh).accuracy == 7
    assert daemon.accepted == 1


async def test_an_old_report_is_not_told_and_the_time_runs_out(daemon: Daemon, provider: GpsdProvider) -> None:
    daemon.on_watch = [DEVICES, {**tpv(), "time": "2026-11-30T00:00:00Z"}]
    service = LocationService(
        provider, lambda: LocationSettings(enabled_mode=EnabledMode.ALWAYS), AllGranted(), AlwaysOpen()
    )

    with pytest.raises(NoFixInTime):
        await service.get({"maxAgeMs": 5_000}, 500)


@pytest.mark.parametrize(
    ("greeting", "on_watch", "text"),
    [
        ([VERSION], [{"class": "DEVICES", "devices": []}], "gpsdctl add"),
        ([VERSION], [DEVICES, {"class": "DEVICE", "path": "/dev/ttyUSB0", "activated": 0}], "gpsdctl add"),
        ([VERSION], [{"class": "ERROR", "message": "at 48.2"}], "refused"),
        ([{**VERSION, "proto_major": 4}], [], "not gpsd"),
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], [], "not gpsd"),
        ([b"x" * 200_000], [], "not gpsd"),
    ],
)
async def test_what_is_wrong_is_said_with_what_to_do(
    daemon: Daemon, provider: GpsdProvider, greeting: list[Any], on_watch: list[Any], text: str
) -> None:
    daemon.greeting, daemon.on_watch = greeting, on_watch

    with pytest.raises(ProviderUnavailable, match=text) as caught:
        await ask(provider)

    assert str(caught.value).startswith("LOCATION_UNAVAILABLE: ")
    assert "48" not in str(caught.value)


async def test_no_gpsd_there_says_what_to_do() -> None:
    async with asking(GpsdProvider(port=free_port())) as nowhere:
        with pytest.raises(ProviderUnavailable, match=r"start it .* or name where it runs"):
            await ask(nowhere)


async def test_a_daemon_that_goes_away_ends_the_search_and_the_next_one_connects_again(
    daemon: Daemon, provider: GpsdProvider
) -> None:
    searching = asyncio.create_task(ask(provider))
    (await daemon.client()).close()
    with pytest.raises(ProviderUnavailable, match="closed the connection"):
        await searching
    daemon.on_watch = [DEVICES, tpv(9)]

    assert (await ask(provider)).accuracy == 9


async def test_the_connection_is_closed_when_nobody_asks(daemon: Daemon) -> None:
    daemon.on_watch = [DEVICES, tpv()]
    async with asking(GpsdProvider(port=daemon.port, clock=lambda: NOW_MS, idle_s=0.01)) as provider:
        await ask(provider)

        assert await asyncio.wait_for(daemon.gone.get(), PATIENCE_S)
        daemon.gone.put_nowait(True)
        assert (await ask(provider)).accuracy == 10
        assert daemon.accepted == 2


# The real gpsd, fed by gpsfake from a log that is made here.


class AlwaysOpen:
    def is_foreground(self) -> bool:
        return True


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def sentence(body: str) -> str:
    return f"${body}*{reduce(lambda total, each: total ^ ord(each), body, 0):02X}\r\n"


def nmea_log(start: datetime, seconds: int, status: str = "A") -> str:
    """What a receiver in Vienna sends, second by second; status V is one that sees no satellite."""
    text = ""
    for second in range(seconds):
        now = start + timedelta(seconds=second)
        clock, date = now.strftime("%H%M%S.00"), now.strftime("%d%m%y")
        place = "4812.5094,N,01622.3248,E"
        if status == "A":
            text += sentence(f"GPGGA,{clock},{place},1,08,0.9,182.0,M,43.0,M,,")
            text += sentence("GPGSA,A,3,04,05,09,12,17,24,28,31,,,,,1.6,0.9,1.3")
            text += sentence("GPGSV,2,1,08,04,40,083,46,05,17,308,41,09,07,344,39,12,22,228,45")
            text += sentence("GPGSV,2,2,08,17,55,120,44,24,33,050,42,28,66,200,47,31,20,280,40")
            text += sentence(f"GPRMC,{clock},A,{place},002.0,084.4,{date},003.1,W,A")
        else:
            text += sentence(f"GPGGA,{clock},,,,,0,00,,,M,,M,,")
            text += sentence(f"GPRMC,{clock},V,,,,,,,{date},,,N")
    return text


GpsFake = Callable[[str], int]


@pytest.fixture
def gpsfake(tmp_path: Path) -> Iterator[GpsFake]:
    """Start a real gpsd whose receiver sends this log again and again; returns its port."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    for name in ("gpsd", "gpsfake"):
        if shutil.which(name, path=path) is None:
            pytest.skip(f"{name} is not installed (Debian: gpsd and gpsd-clients)")
    running: list[subprocess.Popen[bytes]] = []

    def start(log: str) -> int:
        file, port = tmp_path / "receiver.nmea", free_port()
        file.write_text(log, newline="")
        command = ["gpsfake", "-q", "-n", "-c", "0.05", "-P", str(port), str(file)]
        # gpsd logs that there is no D-Bus, and gpsfake draws on its terminal: neither is of use here.
        running.append(
            subprocess.Popen(
                command,
                # Its control socket goes where the test's files go; gpsfake itself leaves it behind.
                env={**os.environ, "PATH": path, "TMPDIR": str(tmp_path)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        return port

    yield start
    for process in running:
        process.terminate()
        process.wait(PATIENCE_S)


async def listening(port: int, receivers: int) -> None:
    """Until gpsd answers and has that many receivers: gpsfake starts it first and adds its own later."""
    async with asyncio.timeout(PATIENCE_S):
        while await receivers_at(port) != receivers:
            await asyncio.sleep(0.05)


async def receivers_at(port: int) -> int | None:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return None
    writer.write(b"?DEVICES;\n")
    try:
        await reader.readline()  # VERSION
        return len(json.loads(await reader.readline())["devices"])
    finally:
        writer.close()


@pytest.mark.system
async def test_a_real_gpsd_gives_a_valid_fix_through_the_whole_node(
    gateway: Any, gpsfake: GpsFake, settings_file: Callable[..., Path], tmp_path: Path
) -> None:
    port = gpsfake(nmea_log(datetime.now(UTC), 60))
    await listening(port, receivers=1)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hereabouts.node",
        env={
            **os.environ,
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "HEREABOUTS_NODE_GATEWAY_URL": gateway.url,
            "HEREABOUTS_NODE_TOKEN": "t",
            "HEREABOUTS_NODE_STATE_DIR": str(tmp_path / "state"),
            "HEREABOUTS_NODE_SETTINGS_FILE": str(settings_file("always")),
            "HEREABOUTS_NODE_PROVIDER": f"gpsd:127.0.0.1:{port}",
        },
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    socket_ = await gateway.socket()

    asked_ms = round(datetime.now(UTC).timestamp() * 1000)
    result = await gateway.ask(socket_, wire.location_params(timeout_ms=15_000), 15_000)
    process.terminate()
    _, errors = await asyncio.wait_for(process.communicate(), PATIENCE_S)

    assert result.ok, result.error
    fix = wire.parse_location_payload(result.value(), asked_ms)
    assert is_plausible(fix)
    assert fix.latitude == pytest.approx(48.20849, abs=1e-6)
    assert fix.longitude == pytest.approx(16.37208, abs=1e-6)
    assert 0 < fix.accuracy < 100
    assert fix.altitude == pytest.approx(225, abs=1)
    assert fix.source is Source.GPS
    assert process.returncode == 0
    assert b"48.2" not in errors


@pytest.mark.system
async def test_a_real_gpsd_whose_receiver_sees_no_satellite_runs_out_of_time(gpsfake: GpsFake) -> None:
    port = gpsfake(nmea_log(datetime.now(UTC), 60, status="V"))
    await listening(port, receivers=1)
    async with asking(GpsdProvider(port=port)) as provider:
        service = LocationService(
            provider, lambda: LocationSettings(enabled_mode=EnabledMode.ALWAYS), AllGranted(), AlwaysOpen()
        )

        with pytest.raises(LocationFault) as caught:
            await service.get({"maxAgeMs": 0}, 1_500)

    assert caught.value.code == "LOCATION_TIMEOUT"


@pytest.mark.system
async def test_a_real_gpsd_without_a_receiver_says_what_to_do(tmp_path: Path) -> None:
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    gpsd = shutil.which("gpsd", path=path)
    if gpsd is None:
        pytest.skip("gpsd is not installed (Debian: gpsd)")
    port = free_port()
    # Without a receiver gpsd only starts with a control socket, through which one could be added.
    daemon = await asyncio.create_subprocess_exec(
        gpsd, "-N", "-S", str(port), "-F", str(tmp_path / "gpsd.sock"), stderr=subprocess.DEVNULL
    )
    try:
        await listening(port, receivers=0)
        async with asking(GpsdProvider(port=port)) as provider:
            with pytest.raises(ProviderUnavailable, match="gpsdctl add"):
                await ask(provider)
    finally:
        daemon.terminate()
        await asyncio.wait_for(daemon.wait(), PATIENCE_S)
