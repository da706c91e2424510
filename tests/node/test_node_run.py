"""A whole node on a real socket, and as a process."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hereabouts.node import GatewayRefused, Phase, Status, load_settings, run
from hereabouts.node.settings import NodeSettings
from hereabouts.schemas import node_wire as wire

PATIENCE_S = 20.0


class RunningNode:
    """`run` in a task, and what it told."""

    def __init__(self, settings: NodeSettings, **options: Any) -> None:
        self.told: list[Status] = []
        self._stop = asyncio.Event()
        self.task = asyncio.create_task(run(settings, on_status=self.told.append, stop=self._stop, **options))

    async def stop(self) -> None:
        self._stop.set()
        await asyncio.wait_for(self.task, PATIENCE_S)


StartNode = Callable[..., Awaitable[RunningNode]]


@pytest.fixture
async def start_node(gateway: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StartNode]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    running: list[RunningNode] = []

    async def start(
        file: Path | None = None, *, options: dict[str, Any] | None = None, **arguments: Any
    ) -> RunningNode:
        settings = load_settings(file, gateway_url=gateway.url, state_dir=tmp_path / "state", **arguments)
        running.append(RunningNode(settings, **(options or {})))
        return running[-1]

    yield start
    for node in running:
        if not node.task.done():
            await node.stop()


async def test_a_bare_node_connects_and_says_disabled(gateway: Any, start_node: StartNode) -> None:
    node = await start_node(token="t")

    result = await gateway.ask(await gateway.socket())

    assert not result.ok
    assert wire.location_error_code(result.error.code, result.error.message) == "LOCATION_DISABLED"
    assert [status.phase for status in node.told] == [Phase.CONNECTING, Phase.CONNECTED]
    assert gateway.connects[0].auth.token == "t"
    assert gateway.extensions == [None]


async def test_a_node_whose_person_allows_it_tells_where_it_is(
    gateway: Any, start_node: StartNode, settings_file: Callable[..., Path]
) -> None:
    await start_node(settings_file("always"), token="t", provider="fixed:48.20849,16.37208")
    socket = await gateway.socket()

    precise = wire.parse_location_payload((await gateway.ask(socket)).value(), 0)
    settings_file("always", precise=False)
    approximate = wire.parse_location_payload((await gateway.ask(socket)).value(), 0)
    settings_file("off")
    off = await gateway.ask(socket)

    assert (precise.latitude, precise.longitude) == (48.20849, 16.37208)
    assert approximate.latitude != 48.20849
    assert approximate.accuracy == 2_000
    assert off.error.code == "LOCATION_DISABLED"


async def test_while_using_in_the_background_says_so(
    gateway: Any, start_node: StartNode, settings_file: Callable[..., Path]
) -> None:
    class Away:
        def is_foreground(self) -> bool:
            return False

    await start_node(settings_file("whileUsing"), provider="fixed:1,2", options={"presence": Away()})

    assert (await gateway.ask(await gateway.socket())).error.code == "LOCATION_BACKGROUND_UNAVAILABLE"


async def test_it_waits_for_its_pairing_and_keeps_its_identity(gateway: Any, start_node: StartNode) -> None:
    details = wire.PairingRequiredDetails(request_id="r1").wire()
    refusal = wire.Error(code="NOT_PAIRED", message="pairing required", details=details, retry_after_ms=100)
    gateway.refusals = [refusal, refusal]
    node = await start_node(token="t")

    await gateway.socket()

    assert len({params.device.id for params in gateway.connects}) == 1
    assert len(gateway.connects) == 3
    pairing = [status for status in node.told if status.phase is Phase.PAIRING]
    assert [status.request_id for status in pairing] == ["r1", "r1"]
    assert all(100 <= (status.retry_in_ms or 0) <= 110 for status in pairing)


async def test_it_comes_back_after_a_restart_of_the_gateway(gateway: Any, start_node: StartNode) -> None:
    await start_node(token="t")

    await (await gateway.socket()).close(wire.CloseCode.RESTARTING, "restart")

    assert (await gateway.ask(await gateway.socket())).error.code == "LOCATION_DISABLED"


async def test_a_silent_gateway_is_left_with_4000(gateway: Any, start_node: StartNode) -> None:
    gateway.tick_interval_ms = 30
    await start_node(token="t")

    assert await gateway.close_code() == wire.CloseCode.TICK_TIMEOUT


async def test_a_wrong_token_ends_the_node_instead_of_hammering_the_gateway(
    gateway: Any, start_node: StartNode
) -> None:
    details = {"code": "AUTH_TOKEN_MISMATCH"}
    gateway.refusals = [wire.Error(code="INVALID_REQUEST", message="unauthorized", details=details)]
    node = await start_node(token="s3cret")

    with pytest.raises(GatewayRefused, match="AUTH_TOKEN_MISMATCH") as caught:
        await asyncio.wait_for(node.task, PATIENCE_S)

    assert "s3cret" not in str(caught.value)


async def test_without_a_token_the_issued_one_is_used_and_a_dead_one_forgotten(
    gateway: Any, start_node: StartNode
) -> None:
    first = await start_node(token="t")
    await gateway.socket()
    await first.stop()
    details = {"code": "AUTH_DEVICE_TOKEN_MISMATCH"}
    gateway.refusals = [wire.Error(code="INVALID_REQUEST", message="no", details=details, retry_after_ms=100)]

    await start_node()
    await gateway.socket()

    assert [params.auth.token for params in gateway.connects] == ["t", "device-token", None]


async def test_stopping_says_goodbye(gateway: Any, start_node: StartNode) -> None:
    node = await start_node(token="t")
    await gateway.socket()

    await node.stop()

    assert await gateway.close_code() == 1001


async def test_a_cancelled_invoke_reaches_the_provider(
    gateway: Any, start_node: StartNode, settings_file: Callable[..., Path]
) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    class Endless:
        async def fix(self, *_: Any) -> Any:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async def aclose(self) -> None:
            pass

    await start_node(settings_file("always"), options={"provider": Endless()})
    socket = await gateway.socket()
    await gateway.begin(socket)
    await asyncio.wait_for(began.wait(), PATIENCE_S)

    cancel = wire.NodeInvokeCancel(invoke_id="i1", node_id=gateway.node_id)
    await socket.send(json.dumps(wire.Event(event=wire.EventName.INVOKE_CANCEL, payload=cancel.wire()).wire()))

    await asyncio.wait_for(ended.wait(), PATIENCE_S)


async def test_nothing_is_logged_of_a_position_or_a_token(
    gateway: Any, start_node: StartNode, settings_file: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="hereabouts"):
        node = await start_node(settings_file("always"), token="s3cret", provider="fixed:48.20849,16.37208")
        assert (await gateway.ask(await gateway.socket())).ok
        await node.stop()

    # The scripted gateway's own websockets logger shows frames; ours must not.
    ours = " ".join(record.getMessage() for record in caplog.records if record.name.startswith("hereabouts"))
    assert ours
    assert "48.2" not in ours
    assert "s3cret" not in ours


def environment(gateway: Any, tmp_path: Path, **more: str) -> dict[str, str]:
    return {
        **os.environ,
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "HEREABOUTS_NODE_GATEWAY_URL": gateway.url,
        "HEREABOUTS_NODE_TOKEN": "s3cret",
        "HEREABOUTS_NODE_STATE_DIR": str(tmp_path / "state"),
        **more,
    }


async def start_process(env: dict[str, str], **options: Any) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hereabouts.node", env=env, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, **options
    )


@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_process_ends_cleanly_on_a_signal(gateway: Any, tmp_path: Path, number: signal.Signals) -> None:
    process = await start_process(environment(gateway, tmp_path))
    result = await gateway.ask(await gateway.socket())
    assert result.error.code == "LOCATION_DISABLED"

    process.send_signal(number)
    _, stderr = await asyncio.wait_for(process.communicate(), PATIENCE_S)

    assert process.returncode == 0
    assert await gateway.close_code() == 1001
    assert b"s3cret" not in stderr
    assert b"Traceback" not in stderr


@pytest.mark.system
async def test_the_process_ends_with_its_supervisor(gateway: Any, tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    env = environment(gateway, tmp_path, HEREABOUTS_SUPERVISED_FD=str(ours))
    process = await start_process(env, pass_fds=(ours,))
    os.close(ours)
    await gateway.socket()
    assert process.returncode is None

    os.close(theirs)

    _, stderr = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 0
    assert b"Traceback" not in stderr


@pytest.mark.system
async def test_the_process_says_what_is_wrong_with_its_settings(gateway: Any, tmp_path: Path) -> None:
    process = await start_process(environment(gateway, tmp_path, HEREABOUTS_NODE_PROVIDER="fixed:48.2"))
    _, stderr = await asyncio.wait_for(process.communicate(), PATIENCE_S)

    assert process.returncode == 1
    assert b"write fixed:LATITUDE,LONGITUDE" in stderr
    assert b"48.2" not in stderr
