"""A node as a process of its own, through every service: what the agent gets over HTTP is what is looked at."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from hereabouts.testing.stack import Stack
from tests.support.leaks import SENTINELS
from tests.support.system import Session, new_session

pytestmark = pytest.mark.system

USER = "ada"
LATITUDE, LONGITUDE = SENTINELS[1]
StartNode = Callable[..., Awaitable[asyncio.subprocess.Process]]


@pytest.fixture
async def session(http: httpx.AsyncClient) -> Session:
    """A session of a user: the user's devices may answer."""
    return await new_session(http, USER)


@pytest.fixture
async def start_node(stack: Stack, tmp_path: Path) -> AsyncIterator[StartNode]:
    """`python -m hereabouts.node` against the stack's gateway."""
    started: list[asyncio.subprocess.Process] = []

    async def start(settings: str | None = None, **environment: str) -> asyncio.subprocess.Process:
        values = {
            "GATEWAY_URL": stack.node_url.replace("http", "ws"),
            "TOKEN": stack.gateway_token(USER),
            "STATE_DIR": str(tmp_path / "state"),
            "DISPLAY_NAME": "Ada's laptop",
            **environment,
        }
        if settings is not None:
            file = tmp_path / "node.toml"
            file.write_text(settings)
            values["SETTINGS_FILE"] = str(file)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "hereabouts.node"),
            env={
                **os.environ,
                "XDG_CONFIG_HOME": str(tmp_path / "config"),
                **{f"HEREABOUTS_NODE_{name}": value for name, value in values.items()},
            },
            stderr=asyncio.subprocess.DEVNULL,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()


ON = 'location.enabledMode = "always"\n'


async def test_a_bare_node_is_off(session: Session, start_node: StartNode) -> None:
    await start_node(PROVIDER=f"fixed:{LATITUDE},{LONGITUDE}")
    await session.clients(1)
    answer = await session.invoke()
    assert (answer["status"], answer["reason"], answer["node_code"]) == (
        "DECLINED",
        "location_disabled",
        "LOCATION_DISABLED",
    )
    assert answer["answered_by"]["kind"] == "node"


async def test_a_node_that_was_switched_on_answers(session: Session, start_node: StartNode) -> None:
    await start_node(ON, PROVIDER=f"fixed:{LATITUDE},{LONGITUDE},8")
    await session.clients(1)
    answer = await session.invoke()
    assert answer["status"] == "GRANTED", answer
    assert (answer["latitude"], answer["longitude"], answer["accuracy"]) == (LATITUDE, LONGITUDE, 8)
    assert answer["precision"] == "precise"
    assert answer["untrusted"]["label"] == "Ada's laptop"


async def test_precise_off_gives_the_cell(session: Session, start_node: StartNode) -> None:
    await start_node(ON + "location.preciseEnabled = false\n", PROVIDER=f"fixed:{LATITUDE},{LONGITUDE},8")
    await session.clients(1)
    answer = await session.invoke()
    assert (answer["status"], answer["precision"]) == ("GRANTED", "approximate")
    assert answer["accuracy"] >= 2_000
    assert answer["latitude"] != pytest.approx(LATITUDE, abs=1e-4)
    assert answer["latitude"] == pytest.approx(LATITUDE, abs=0.02)


async def test_a_route_is_played(session: Session, start_node: StartNode, tmp_path: Path) -> None:
    south, north = LATITUDE - 0.001, LATITUDE
    route = tmp_path / "route.gpx"
    route.write_text(
        '<?xml version="1.0"?><gpx version="1.1" creator="test" xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>'
        f'<trkpt lat="{south}" lon="{LONGITUDE}"/><trkpt lat="{north}" lon="{LONGITUDE}"/></trkseg></trk></gpx>'
    )
    await start_node(ON, PROVIDER=f"route:{route}")
    await session.clients(1)
    answer = await session.invoke()
    assert answer["status"] == "GRANTED", answer
    assert south - 1e-9 <= answer["latitude"] <= north + 1e-9
    assert answer["source"] == "gps"


async def test_a_user_s_node_answers_no_other_user(
    http: httpx.AsyncClient, session: Session, start_node: StartNode
) -> None:
    await start_node(ON, PROVIDER=f"fixed:{LATITUDE},{LONGITUDE}")
    await session.clients(1)
    for stranger in (await new_session(http, "bob"), await new_session(http)):
        answer = await stranger.invoke()
        assert (answer["status"], answer["reason"]) == ("UNAVAILABLE", "no_client")


async def test_a_killed_node_is_gone_at_once(session: Session, start_node: StartNode) -> None:
    process = await start_node(ON, PROVIDER=f"fixed:{LATITUDE},{LONGITUDE}")
    await session.clients(1)
    process.kill()
    await process.wait()
    await session.no_clients()
    assert (await session.invoke())["reason"] == "no_client"
