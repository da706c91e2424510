"""One call is one trace, with spans of all services that took part."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from hereabouts.node.providers import provider_from
from hereabouts.node.run import run
from hereabouts.node.settings import NodeSettings
from hereabouts.schemas.http import SessionCreated
from hereabouts.testing import replies
from hereabouts.testing.collector import Collector, ReceivedSpan
from hereabouts.testing.plugin import MakeTab
from hereabouts.testing.stack import Stack
from tests.support.leaks import SENTINELS
from tests.support.system import Session, new_session

pytestmark = pytest.mark.system

EDGES = {"tab": "browser-bridge", "node": "node-gateway"}


def has(*services: str) -> Callable[[list[ReceivedSpan]], bool]:
    return lambda spans: set(services) <= {span.service for span in spans}


def assert_is_one_tree(spans: list[ReceivedSpan]) -> ReceivedSpan:
    """Exactly one root, every other span under one that is there, each within the trace's time."""
    ids = {span.span_id for span in spans}
    roots = [span for span in spans if span.parent_id not in ids]
    assert len(roots) == 1, [f"{span.service}: {span.name}" for span in roots]
    root = roots[0]
    assert root.service == "brain"
    assert all(span.start_ns <= span.end_ns for span in spans)
    return root


async def test_a_tab_s_answer_is_one_trace_of_brain_bridge_and_browser(
    session: Session, scripted_tab: MakeTab, collector: Collector, stack: Stack
) -> None:
    await scripted_tab(
        SessionCreated.model_validate(session.made), permission="granted", otherwise=replies.grant(*SENTINELS[0])
    )
    await session.clients(1)
    answer = await session.invoke()
    spans = await asyncio.to_thread(collector.trace, answer["trace_id"], has("brain", "browser-bridge"))
    root = assert_is_one_tree(spans)
    assert root.name == "execute_tool location_get"
    assert root.attributes["gen_ai.operation.name"] == "execute_tool"
    assert root.attributes["gen_ai.tool.name"] == "location_get"
    assert root.attributes["gen_ai.tool.call.id"] == answer["correlation_id"]
    names = [span.name for span in spans]
    for hop in ("send edge.inbox", "process edge.inbox", "send brain.inbox", "process brain.inbox"):
        assert hop in names, names
    instance_names = [span for span in spans if "edge_" in span.name or "brain_" in span.name]
    assert instance_names == []
    assert all(span.resource["service.namespace"] == "hereabouts" for span in spans)


async def test_a_caller_s_trace_is_continued(session: Session, scripted_tab: MakeTab, collector: Collector) -> None:
    await scripted_tab(SessionCreated.model_validate(session.made), otherwise=replies.deny())
    await session.clients(1)
    trace_id, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    response = await session.http.post(
        f"/v1/sessions/{session.id}/invocations",
        json={"tool": "location_get"},
        headers={
            "authorization": f"Bearer {session.made['agent_token']}",
            "traceparent": f"00-{trace_id}-{parent}-01",
        },
    )
    assert response.json()["trace_id"] == trace_id
    spans = await asyncio.to_thread(collector.trace, trace_id, has("brain", "browser-bridge"))
    assert assert_is_one_tree(spans).parent_id == parent


async def test_a_refused_caller_s_trace_is_not(session: Session, collector: Collector) -> None:
    trace_id = "5bf92f3577b34da6a3ce929d0e0e4736"
    response = await session.http.post(
        f"/v1/sessions/{session.id}/invocations",
        json={"tool": "location_get"},
        headers={"authorization": "Bearer nobody", "traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"},
    )
    assert response.status_code == 401
    assert trace_id not in response.text


async def test_one_call_of_a_tab_and_a_node_is_one_trace_of_all_three_services(
    stack: Stack, collector: Collector, http: httpx.AsyncClient, scripted_tab: MakeTab, tmp_path: Path
) -> None:
    session = await new_session(http, "grace")
    (tmp_path / "node.toml").write_text('location.enabledMode = "always"\n')
    stop = asyncio.Event()
    settings = NodeSettings(
        gateway_url=stack.node_url.replace("http", "ws"),
        token=SecretStr(stack.gateway_token("grace")),
        settings_file=tmp_path / "node.toml",
        state_dir=tmp_path / "state",
    )
    latitude, longitude = SENTINELS[2]
    node = asyncio.create_task(run(settings, provider=provider_from(f"fixed:{latitude},{longitude}"), stop=stop))
    try:
        await scripted_tab(
            SessionCreated.model_validate(session.made),
            permission="granted",
            otherwise=replies.grant(*SENTINELS[2], accuracy=50),
        )
        await session.clients(2)
        answer = await session.invoke()
        assert answer["status"] == "GRANTED", answer
        assert answer["conflict"] is False
        spans = await asyncio.to_thread(
            collector.trace, answer["trace_id"], has("brain", "browser-bridge", "node-gateway")
        )
        assert_is_one_tree(spans)
    finally:
        stop.set()
        await node
