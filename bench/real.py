"""Hereabouts itself: brain and browser bridge as processes of their own, set as in use, and a collector that counts."""

import secrets
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import uvloop

from bench.processes import Process, free_port, wait_for_port
from bench.sides import CALL, HOST, Side, start_load, start_tabs
from hereabouts.bus.redis_bus import RedisBus
from hereabouts.bus.sealing import Sealer
from hereabouts.runtime.keyring import KeyRing
from hereabouts.runtime.tokens import api_key_sha256, new_api_key
from hereabouts.schemas.http import SessionCreated
from hereabouts.schemas.records import Role, TenantRecord
from hereabouts.schemas.tools import LOCATION_GET_TOOL

TENANT = "bench"
TRACE_RATIO = 0.1
"""Of granted calls; the services' own default."""

EXPORT_WAIT_S = 6.0
"""OpenTelemetry's batch processor sends every 5 s."""


def start(stack: ExitStack, folder: Path, server: Process, url: str, callers: int) -> tuple[Side, Process]:
    """Services, sessions, tabs and load, all ready; and the collector, which answers each line with its counts."""
    brain_port, bridge_port, sink_port = free_port(), free_port(), free_port()
    brain_url, browser_url = f"http://{HOST}:{brain_port}", f"http://{HOST}:{bridge_port}"
    sink = Process.module("bench.otlp_sink", str(sink_port), log=folder / "sink.log")
    stack.callback(sink.end)
    wait_for_port(sink_port, sink)
    secret = secrets.token_hex(32)
    env = {
        "HEREABOUTS_REDIS_URL": url,
        "HEREABOUTS_SECRET": secret,
        "HEREABOUTS_DATA_DIR": str(folder),
        "HEREABOUTS_BRAIN_URL": brain_url,
        "HEREABOUTS_BROWSER_URL": browser_url,
        "HEREABOUTS_TRACE_RATIO": str(TRACE_RATIO),
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{HOST}:{sink_port}",
    }
    key = uvloop.run(_make_tenant(url, secret))
    brain = _service(stack, folder, "brain", brain_port, env)
    bridge = _service(stack, folder, "browser_bridge", bridge_port, env)
    bridge.name = "bridge"
    for process in (brain, bridge):
        process.answer()  # the ready line
    sessions = _sessions(brain_url, key, callers)
    tabs = start_tabs(stack, folder, [_socket(session, browser_url) for session in sessions])
    load = start_load(stack, folder, brain_port, [_request(session) for session in sessions])
    return Side("real", [brain, bridge, server, sink, tabs, load], load), sink


def wait_for_exports() -> None:
    """Until the last spans have been sent."""
    time.sleep(EXPORT_WAIT_S)


def _service(stack: ExitStack, folder: Path, name: str, port: int, env: dict[str, str]) -> Process:
    own = {**env, "HEREABOUTS_PORT": str(port)}
    process = Process.module(f"hereabouts.{name}", log=folder / f"{name}.log", env=own)
    stack.callback(process.end)
    return process


async def _make_tenant(url: str, secret: str) -> str:
    """Write a tenant; its API key."""
    key = new_api_key()
    keyring = KeyRing.derive(secret)
    bus = RedisBus(url, Role.BRAIN, Sealer(keyring.sealing_keys, keyring.sealing_key_id))
    await bus.start(lambda messages: None)
    now_ms = int(time.time() * 1_000)
    record = TenantRecord(tenant=TENANT, name=TENANT, api_key_sha256=[api_key_sha256(key)], created_at_ms=now_ms)
    await bus.records(TenantRecord).put(TENANT, record)
    await bus.stop()
    return key


def _sessions(brain_url: str, key: str, count: int) -> list[SessionCreated]:
    with httpx.Client(base_url=brain_url, headers={"Authorization": f"Bearer {key}"}, timeout=30) as client:
        sessions = []
        for number in range(count):
            response = client.post("/v1/sessions", json={"user": f"user-{number}"})
            response.raise_for_status()
            sessions.append(SessionCreated.model_validate_json(response.content))
        return sessions


def _socket(session: SessionCreated, browser_url: str) -> dict[str, Any]:
    tool = LOCATION_GET_TOOL
    spec = {"name": tool.name, "description": tool.description, "paramsSchema": tool.params_schema}
    hello = {
        "token": session.client_token,
        "clientId": f"tab-{session.session_id}",
        "visibility": "visible",
        "focused": True,
        "permission": "granted",
        "sharing": "on",
        "timeZone": "Europe/Berlin",
        "languages": ["de-DE", "en"],
    }
    frames = [
        {"type": "hello", "data": hello},
        {"type": "session-bind", "data": {"sessionId": session.session_id}},
        {"type": "client-tool-register", "data": {"tools": [spec]}},
    ]
    return {"url": session.socket_url, "origin": browser_url, "frames": frames}


def _request(session: SessionCreated) -> dict[str, Any]:
    path = f"/v1/sessions/{session.session_id}/invocations"
    return {"path": path, "headers": {"Authorization": f"Bearer {session.agent_token}"}, "body": CALL}
