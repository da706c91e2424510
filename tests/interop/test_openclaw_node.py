"""OpenClaw's own gateway client against our gateway: paired, asked over the bus, answered in each dialect."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hereabouts.schemas.fixes import Precision, Source
from hereabouts.schemas.outcomes import Reason, Status
from tests.support.gateway import PATIENCE_S, LiveGateway, live_gateway

pytestmark = pytest.mark.npm

StartOpenclaw = Callable[..., Awaitable[Any]]


@pytest.fixture
async def gateway() -> AsyncIterator[LiveGateway]:
    async with live_gateway() as running:
        yield running


@pytest.mark.parametrize("dialect", ["ios", "android", "windows", "linux"])
async def test_a_node_connects_and_answers(gateway: LiveGateway, start_openclaw: StartOpenclaw, dialect: str) -> None:
    process = await start_openclaw(gateway.url, gateway.token(auto_approve=True), dialect=dialect)
    hello = await process.wait_for("connected")
    assert (hello["protocol"], hello["role"], hello["hasDeviceToken"]) == (4, "node", True)
    assert hello["policy"] == {"maxPayload": 26_214_400, "maxBufferedBytes": 52_428_800, "tickIntervalMs": 30_000}

    (node,) = await gateway.brain.nodes("ada")
    assert (node.client_id, node.label) == (hello["deviceId"], f"interop {dialect}")
    answer = await gateway.brain.ask(node, desired_accuracy="precise")
    assert answer.status is Status.GRANTED
    assert answer.fix is not None
    assert (answer.fix.latitude, answer.fix.longitude, answer.fix.accuracy) == (48.20849, 16.37208, 12.5)
    assert answer.fix.precision is Precision.PRECISE
    assert answer.fix.source is (Source.GPS if dialect in ("ios", "android") else Source.UNKNOWN)

    asked = await process.wait_for("invoke")
    assert asked["command"] == "location.get"
    assert asked["params"]["maxAgeMs"] == asked["params"]["maxAge"] == 15_000
    assert asked["params"]["desiredAccuracy"] == asked["params"]["accuracy"] == "precise"
    ack = await process.wait_for("ack")
    assert ack["payload"] == {"ok": True}


@pytest.mark.parametrize("dialect", ["ios", "android", "windows", "linux"])
async def test_a_stable_code_arrives_from_each_dialect(
    gateway: LiveGateway, start_openclaw: StartOpenclaw, dialect: str
) -> None:
    code = "LOCATION_PERMISSION_REQUIRED"
    await start_openclaw(gateway.url, gateway.token(auto_approve=True), dialect=dialect, error=code)
    (node,) = await gateway.brain.nodes("ada")
    answer = await gateway.brain.ask(node)
    assert (answer.status, answer.reason) == (Status.DECLINED, Reason.PERMISSION_REQUIRED)
    assert answer.node_code == code


@pytest.mark.parametrize(("low", "high"), [(3, 3), (3, 4), (4, 4)])
async def test_both_protocols(gateway: LiveGateway, start_openclaw: StartOpenclaw, low: int, high: int) -> None:
    process = await start_openclaw(
        gateway.url, gateway.token(auto_approve=True), min_protocol=str(low), max_protocol=str(high)
    )
    assert (await process.wait_for("connected"))["protocol"] == high


async def test_a_protocol_that_we_do_not_speak(gateway: LiveGateway, start_openclaw: StartOpenclaw) -> None:
    process = await start_openclaw(
        gateway.url, gateway.token(auto_approve=True), min_protocol="5", max_protocol="6", role="operator"
    )
    error = await process.wait_for("connect-error")
    assert (error["code"], error["details"]["code"]) == ("INVALID_REQUEST", "PROTOCOL_MISMATCH")
    assert error["details"]["expectedProtocol"] == 4


async def test_a_device_waits_is_approved_and_comes_in_by_itself(
    gateway: LiveGateway, start_openclaw: StartOpenclaw
) -> None:
    waiting = await start_openclaw(gateway.url, gateway.token())
    refused = await waiting.wait_for("pairing-required")
    assert refused["details"]["recommendedNextStep"] == "wait_then_retry"
    request_id = refused["details"]["requestId"]
    again = await waiting.wait_for("pairing-required", after=waiting.told.index(refused) + 1)
    assert again["details"]["requestId"] == request_id

    operator = await start_openclaw(gateway.url, gateway.token(auto_approve=True), role="operator")
    await operator.wait_for("connected", role="operator")
    listed = await operator.request("node.pair.list")
    assert [request["requestId"] for request in listed["payload"]["pending"]] == [request_id]
    approved = await operator.request("node.pair.approve", {"requestId": request_id})
    assert approved["ok"] is True

    await waiting.wait_for("connected")
    assert not [told for told in waiting.told if told["event"] == "paused"]
    (node,) = await gateway.brain.nodes("ada")
    assert (await gateway.brain.ask(node)).status is Status.GRANTED
    nodes = (await operator.request("node.list"))["payload"]["nodes"]
    assert [(entry["nodeId"], entry["connected"]) for entry in nodes] == [(node.client_id, True)]
    described = (await operator.request("node.describe", {"nodeId": node.client_id}))["payload"]
    assert (described["nodeId"], described["approvalState"]) == (node.client_id, "approved")


async def test_a_token_that_is_none_stops_the_client(gateway: LiveGateway, start_openclaw: StartOpenclaw) -> None:
    process = await start_openclaw(gateway.url, "nonsense")
    assert (await process.wait_for("connect-error"))["details"]["code"] == "AUTH_TOKEN_MISMATCH"
    assert (await process.wait_for("paused"))["detailCode"] == "AUTH_TOKEN_MISMATCH"


async def test_a_silent_node_hears_that_nobody_waits_any_more(
    gateway: LiveGateway, start_openclaw: StartOpenclaw
) -> None:
    process = await start_openclaw(gateway.url, gateway.token(auto_approve=True), silent=True)
    (node,) = await gateway.brain.nodes("ada")
    correlation_id, waiting = gateway.brain.begin(node, budget_ms=60_000)
    await process.wait_for("invoke", id=correlation_id)
    gateway.brain.cancel(node, correlation_id, "cancelled")
    cancelled = await process.wait_for("cancelled")
    assert cancelled["invokeId"] == correlation_id
    assert not waiting.done()


async def test_a_node_that_crashes_is_answered_for_at_once(gateway: LiveGateway, start_openclaw: StartOpenclaw) -> None:
    process = await start_openclaw(gateway.url, gateway.token(auto_approve=True), silent=True)
    (node,) = await gateway.brain.nodes("ada")
    correlation_id, waiting = gateway.brain.begin(node, budget_ms=60_000)
    await process.wait_for("invoke", id=correlation_id)
    await process.kill()
    answer = await asyncio.wait_for(waiting, PATIENCE_S)
    assert (answer.status, answer.reason) == (Status.PENDING, Reason.NOT_READY)


async def test_a_paired_client_comes_back_after_a_restart(start_openclaw: StartOpenclaw, tmp_path: Path) -> None:
    async with live_gateway() as first:
        port = int(first.url.rsplit(":", 1)[1].strip("/"))
        process = await start_openclaw(first.url, first.token(auto_approve=True), identity=str(tmp_path / "key.pem"))
        before = await process.wait_for("connected")
    closed = await process.wait_for("closed")
    assert closed["code"] == 1012
    async with live_gateway(first.hub, port) as second:
        again = await process.wait_for("connected", after=process.told.index(closed))
        assert again["deviceId"] == before["deviceId"]
        (node,) = await second.brain.nodes("ada")
        assert (await second.brain.ask(node)).status is Status.GRANTED
