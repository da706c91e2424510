"""Every way a request can be wrong has its own status, code and text, and none repeats what was sent."""

import asyncio
import json
from typing import Any

import pytest

from hereabouts.schemas.claims import TokenKind
from hereabouts.schemas.errors import ErrorBody
from hereabouts.schemas.ids import new_correlation_id
from hereabouts.schemas.limits import MAX_REQUEST_BYTES
from hereabouts.schemas.tools import LOCATION_GET_TOOL


def error(response: Any, status: int, code: str) -> ErrorBody:
    body = ErrorBody.model_validate(response.json())
    assert (response.status_code, body.code) == (status, code), response.text
    assert response.headers["content-type"] == "application/json"
    return body


def nested(depth: int) -> bytes:
    return b'{"tool":"location_get","arguments":{"a":' + b"[" * depth + b"]" * depth + b"}}"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "bad_request"),
        (b"{", 400, "bad_request"),
        (b"tool=location_get", 400, "bad_request"),
        (b'{"tool":"location_get","purpose":"\xff"}', 400, "bad_request"),
        (nested(100), 400, "bad_request"),
        (nested(20_000), 400, "bad_request"),
        (b"[]", 422, "invalid_request"),
        (b"null", 422, "invalid_request"),
        (b'"location_get"', 422, "invalid_request"),
        (b"{}", 422, "invalid_request"),
        (b'{"tool":7}', 422, "invalid_request"),
        (b'{"tool":"no spaces"}', 422, "invalid_request"),
        (b'{"tool":"location_get","unknown":1}', 422, "invalid_request"),
        (b'{"tool":"location_get","arguments":[]}', 422, "invalid_request"),
        (b'{"tool":"location_get","arguments":{"unknown":1}}', 422, "invalid_request"),
        (b'{"tool":"location_get","arguments":{"max_age_ms":-1}}', 422, "invalid_request"),
        (b'{"tool":"location_get","arguments":{"max_age_ms":true}}', 422, "invalid_request"),
        (b'{"tool":"location_get","arguments":{"max_age_ms":NaN}}', 422, "invalid_request"),
        (b'{"tool":"location_get","arguments":{"max_age_ms":' + b"9" * 5_000 + b"}}", 422, "invalid_request"),
        (b'{"tool":"location_get","arguments":{"desired_accuracy":"exact"}}', 422, "invalid_request"),
        (b'{"tool":"location_get","arguments":{"desired_accuracy":0}}', 422, "invalid_request"),
        (b'{"tool":"location_get","arguments":{"desired_accuracy":true}}', 422, "invalid_request"),
        (b'{"tool":"location_get","purpose":"a\\u0000b"}', 422, "invalid_request"),
        (b'{"tool":"location_get","purpose":"\\ud800"}', 422, "invalid_request"),
        (b'{"tool":"location_get","purpose":"' + b"x" * 201 + b'"}', 422, "invalid_request"),
        (b'{"tool":"location_get","route":"a b"}', 422, "invalid_request"),
        (b'{"tool":"location_get","timeout_ms":0}', 422, "invalid_request"),
        (b'{"tool":"location_get","timeout_ms":-1}', 422, "invalid_request"),
        (b'{"tool":"location_get","timeout_ms":1}', 422, "invalid_request"),
        (b'{"tool":"location_get","timeout_ms":NaN}', 422, "invalid_request"),
        (b'{"tool":"location_get","timeout_ms":Infinity}', 422, "invalid_request"),
        (b'{"tool":"location_get","timeout_ms":1e999}', 422, "invalid_request"),
        (b'{"tool":"location_get","timeout_ms":"5000"}', 422, "invalid_request"),
        (b'{"tool":"location_get","timeout_ms":true}', 422, "invalid_request"),
        (b'{"tool":"location_get","x":"' + b"x" * MAX_REQUEST_BYTES + b'"}', 413, "request_too_large"),
    ],
)
async def test_a_wrong_invocation(house: Any, body: bytes, status: int, code: str) -> None:
    session = (await house.session())["session_id"]
    error(await house.post(session, body), status, code)


async def test_a_body_without_a_length_is_cut_off(house: Any) -> None:
    session = (await house.session())["session_id"]

    async def endless() -> Any:
        while True:
            yield b"x" * 10_000

    response = await house.http.post(f"/v1/sessions/{session}/invocations", content=endless())
    error(response, 413, "request_too_large")


async def test_a_422_names_the_field_and_not_the_value(house: Any) -> None:
    session = (await house.session())["session_id"]
    response = await house.post(session, {"tool": "location_get", "arguments": {"max_age_ms": "48.2082"}})
    body = error(response, 422, "invalid_request")
    assert body.details["problems"][0]["at"] == "arguments.max_age_ms"
    assert "48.2082" not in response.text


@pytest.mark.parametrize(
    ("wish", "budget"), [(500, 500), (500.9, 500), (700, 700), (29_000, 29_000), (2**31, 29_000), (10**30, 29_000)]
)
async def test_a_wish_that_is_fine_is_reported_as_the_budget(house: Any, wish: float, budget: int) -> None:
    session = (await house.session())["session_id"]
    assert (await house.invoke(session, timeout_ms=wish))["budget_ms"] == budget


async def test_who_may_not(house: Any, other_tenant: Any) -> None:
    one, two = await house.session(), await house.session()
    session = one["session_id"]
    body = json.dumps({"tool": "location_get"})
    path = f"/v1/sessions/{session}/invocations"

    async def call(header: str | None) -> Any:
        headers = {"Authorization": header} if header is not None else {}
        request = house.http.build_request("POST", path, content=body, headers=headers)
        if header is None:
            del request.headers["authorization"]
        return await house.http.send(request)

    for header in (None, "", "Bearer", "Basic abc", "Bearer hb_nonsense", "Bearer a.b.c", "Bearer \x00"):
        response = await call(header)
        error(response, 401, "unauthorized")
        assert response.headers["www-authenticate"] == "Bearer"
    error(await call(f"Bearer {one['client_token']}"), 401, "unauthorized")
    expired = house.tokens.sign(TokenKind.AGENT, "acme", session, ttl_s=-10)
    assert "expired" in error(await call(f"Bearer {expired}"), 401, "unauthorized").message
    error(await call(f"Bearer {two['agent_token']}"), 403, "forbidden")
    assert (await call(f"Bearer {one['agent_token']}")).status_code == 200
    # Another tenant's session looks like none.
    error(await call(f"Bearer {await other_tenant(house.hub)}"), 404, "not_found")


async def test_an_agent_may_use_its_session_only(house: Any) -> None:
    created = await house.session()
    session = created["session_id"]
    agent = {"Authorization": f"Bearer {created['agent_token']}"}
    assert (await house.http.get(f"/v1/sessions/{session}", headers=agent)).status_code == 200
    assert (await house.http.get(f"/v1/sessions/{session}/tools", headers=agent)).status_code == 200
    assert (await house.http.get("/v1/tools", headers=agent)).status_code == 200
    error(await house.http.post("/v1/sessions", json={}, headers=agent), 403, "forbidden")
    error(await house.http.delete(f"/v1/sessions/{session}", headers=agent), 403, "forbidden")
    error(await house.http.get(f"/v1/invocations/{new_correlation_id()}", headers=agent), 404, "not_found")


async def test_an_ended_session_makes_its_tokens_useless(house: Any) -> None:
    created = await house.session("ada")
    session = created["session_id"]
    assert created["user"] == "ada"
    assert created["socket_url"].endswith("/ws")
    assert "/chat#code=" in created["page_url"]
    assert (await house.http.delete(f"/v1/sessions/{session}")).status_code == 204
    agent = {"Authorization": f"Bearer {created['agent_token']}"}
    response = await house.http.post(
        f"/v1/sessions/{session}/invocations", json={"tool": "location_get"}, headers=agent
    )
    error(response, 404, "not_found")
    error(await house.http.delete(f"/v1/sessions/{session}"), 404, "not_found")


async def test_a_node_of_the_user_counts_and_another_users_does_not(house: Any) -> None:
    created = await house.session("ada")
    await house.edge.register(created["session_id"], "phone", kind="node", session=None, user="ada")
    await house.edge.register(created["session_id"], "strange", kind="node", session=None, user="eve")
    house.edge.on_ask = house.edge.answer
    answer = await house.invoke(created["session_id"])
    assert answer["answered_by"] == {"kind": "node", "client_id": "phone"}
    assert len(house.edge.asks) == 1


@pytest.mark.parametrize("user", ["", "a b", "x" * 129, 7, ["a"]])
async def test_a_wrong_user(house: Any, user: Any) -> None:
    error(await house.http.post("/v1/sessions", json={"user": user}), 422, "invalid_request")


async def test_a_session_may_be_made_without_a_body(house: Any) -> None:
    assert (await house.http.post("/v1/sessions")).status_code == 201


@pytest.mark.parametrize("session", ["s_unknown", "x" * 500, "%00", "..", "a%2Fb", "é"])
async def test_an_unknown_session(house: Any, session: str) -> None:
    response = await house.http.get(f"/v1/sessions/{session}")
    assert response.status_code == 404
    ErrorBody.model_validate(response.json())


@pytest.mark.parametrize(
    "correlation_id", ["x", "01900000-0000-7000-8000-000000000000", "00000000-0000-0000-0000-000000000000"]
)
async def test_an_unknown_invocation(house: Any, correlation_id: str) -> None:
    error(await house.http.get(f"/v1/invocations/{correlation_id}"), 404, "not_found")


async def test_an_agent_sees_the_calls_of_its_own_session_only(house: Any) -> None:
    mine, other = await house.session(), await house.session()
    path = f"/v1/invocations/{(await house.invoke(mine['session_id']))['correlation_id']}"
    assert (await house.http.get(path, headers={"Authorization": f"Bearer {mine['agent_token']}"})).status_code == 200
    response = await house.http.get(path, headers={"Authorization": f"Bearer {other['agent_token']}"})
    error(response, 404, "not_found")


async def test_another_tenants_invocation_looks_like_none(house: Any, other_tenant: Any) -> None:
    session = (await house.session())["session_id"]
    answer = await house.invoke(session)
    path = f"/v1/invocations/{answer['correlation_id']}"
    assert (await house.http.get(path)).status_code == 200
    key = await other_tenant(house.hub)
    error(await house.http.get(path, headers={"Authorization": f"Bearer {key}"}), 404, "not_found")


async def test_unknown_addresses_and_methods(house: Any) -> None:
    error(await house.http.get("/nowhere"), 404, "no_such_route")
    response = await house.http.put("/v1/sessions")
    error(response, 405, "method_not_allowed")
    assert "POST" in response.headers["allow"]
    error(await house.http.get("/v1/sessions/s_1/invocations"), 405, "method_not_allowed")


async def test_a_bus_that_does_not_answer_is_a_503(house: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session = (await house.session())["session_id"]
    monkeypatch.setattr("hereabouts.brain.routes.BUS_WAIT_S", 0.02)
    house.hub.silence(house.brain.bus.instance)
    response = await house.post(session, {"tool": "location_get"})
    error(response, 503, "bus_unavailable")
    assert response.headers["retry-after"] == "1"
    house.hub.answer(house.brain.bus.instance)


async def test_what_nobody_foresaw_is_a_500_without_words(house: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("at 48.2082")

    session = (await house.session())["session_id"]
    monkeypatch.setattr("hereabouts.brain.routes.view", broken)
    response = await house.http.get(f"/v1/sessions/{session}")
    body = error(response, 500, "internal")
    assert body.trace_id is not None
    assert "48.2082" not in response.text


async def test_a_caller_that_hangs_up_leaves_no_open_call(house: Any) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session)
    call = asyncio.create_task(house.invoke(session))
    await house.edge.until(lambda: len(house.edge.asks) == 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    house.edge.answer(*house.edge.asks[0])
    await house.brain.drain()
    assert house.brain.calls.open == 0


async def test_probes_need_no_key(house: Any) -> None:
    del house.http.headers["authorization"]
    assert (await house.http.get("/livez")).status_code == 200
    assert (await house.http.get("/readyz")).status_code == 200
    metrics = (await house.http.get("/metrics")).text
    assert "hereabouts_open_calls 0.0" in metrics
    error(await house.http.get("/v1/tools"), 401, "unauthorized")


async def test_the_tools_that_we_define(house: Any) -> None:
    tools = (await house.http.get("/v1/tools")).json()["tools"]
    assert tools == [LOCATION_GET_TOOL.model_dump(mode="json")]
