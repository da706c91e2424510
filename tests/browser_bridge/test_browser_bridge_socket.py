"""What a socket is told, from the handshake to the close codes, on a real server."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from hereabouts.browser_bridge import dialect as dialect_module
from hereabouts.schemas.claims import TokenKind
from hereabouts.schemas.limits import MAX_BAD_FRAMES, MAX_FRAME_BYTES
from hereabouts.schemas.tools import Tool
from hereabouts.testing.tabs import BridgeRefused
from tests.support.edges import as_json

from .conftest import House


async def test_hello_is_acknowledged_with_what_a_client_needs(house: House) -> None:
    tab = await house.tab()
    await tab.open()
    ack = await tab.hello()
    assert ack["connectionId"].startswith("c_")
    assert len(ack["resume"]) >= 32
    assert ack["limits"]["maxFrameBytes"] == MAX_FRAME_BYTES
    assert ack["serverTimeMs"] > 0
    assert await tab.bind() == {"mode": "live"}
    await tab.close()


async def test_the_directory_knows_what_the_page_said_of_itself(house: House) -> None:
    tab = await house.tab(permission="granted", visibility="hidden", focused=False, sharing="off")
    async with tab:
        [client] = await house.brain.clients(house.tenant, "s_1")
        assert (client.kind, client.client_id, client.connection) == ("tab", tab.client_id, tab.connection_id)
        assert (client.permission, client.visibility, client.focused) == ("granted", "hidden", False)
        assert (client.sharing, client.time_zone) == ("off", "Europe/Berlin")
        assert [tool.name for tool in client.tools] == ["location_get"]
        before = client.active_at_ms
        await tab.set_state(visibility="visible", focused=True)

        async def visible() -> bool:
            [now] = await house.brain.clients(house.tenant, "s_1")
            return now.visibility == "visible" and now.focused and now.active_at_ms >= before

        async with asyncio.timeout(10):
            while not await visible():
                await asyncio.sleep(0.01)


async def test_a_closed_tab_disappears(house: House) -> None:
    async with await house.tab():
        await house.brain.clients(house.tenant, "s_1", 1)
    await house.brain.clients(house.tenant, "s_1", 0)


async def test_registering_on_an_unbound_socket_is_403_in_these_very_words(house: House) -> None:
    tab = await house.tab()
    await tab.open()
    await tab.hello()
    with pytest.raises(BridgeRefused) as refusal:
        await tab.register(Tool(name="location_get"))
    assert refusal.value.error_code == 403
    assert refusal.value.error_message == "requires a bound session"
    await tab.bind()
    await tab.register(Tool(name="location_get"))
    await tab.close()


async def test_binding_to_a_session_that_no_token_covers_is_403(house: House) -> None:
    tab = await house.tab()
    await house.session("s_other")
    await tab.open()
    await tab.hello()
    with pytest.raises(BridgeRefused) as refusal:
        await tab.bind("s_other")
    assert refusal.value.error_code == 403
    await tab.bind("s_other", house.token("s_other"))
    await house.brain.clients(house.tenant, "s_other")
    await tab.close()


async def test_switching_sessions_leaves_the_old_one_at_once(house: House) -> None:
    tab = await house.tab()
    token = await house.session("s_next")
    async with tab:
        await house.brain.clients(house.tenant, "s_1", 1)
        await tab.bind("s_next", token)
        [there] = await house.brain.clients(house.tenant, "s_next", 1)
        await house.brain.clients(house.tenant, "s_1", 0)
        assert there.tools == []
        await tab.register(Tool(name="location_get"))


@pytest.mark.parametrize("which", ["garbage", "agent", "expired", "no session", "gone"])
async def test_a_bad_token_is_closed_with_4003(house: House, which: str) -> None:
    tab = await house.tab()
    tab.token = {
        "garbage": "x.y.z",
        "agent": house.token("s_1", TokenKind.AGENT),
        "expired": house.token("s_1", ttl_s=-10),
        "no session": house.token(None),
        "gone": await house.session("s_gone", exists=False),
    }[which]
    await tab.open()
    with pytest.raises(ConnectionError):
        await tab.hello()
    assert await tab.closed() == 4003


async def test_silence_is_closed_with_4001(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect_module, "HELLO_TIMEOUT_MS", 50)
    tab = await house.tab()
    await tab.open()
    assert await tab.closed() == 4001


async def test_anything_before_hello_is_closed_with_4001(house: House) -> None:
    tab = await house.tab()
    await tab.open()
    await tab.send({"type": "ping", "data": {"t": 1}})
    assert await tab.closed() == 4001


async def test_a_handshake_without_an_origin_is_refused(house: House) -> None:
    for origin in (None, "null", "https://app.example/path"):
        with pytest.raises(InvalidStatus) as refusal:
            await connect(house.bridge.url, origin=origin, proxy=None)  # type: ignore[arg-type]
        assert refusal.value.response.status_code == 403


@pytest.mark.parametrize(
    ("origin", "welcome"),
    [("https://app.example", True), ("https://app.example.evil.test", False), ("http://app.example", False)],
)
async def test_only_origins_of_the_tenants_list_get_in(house: House, origin: str, welcome: bool) -> None:
    tab = await house.tab(origin=origin)
    await tab.open()
    if welcome:
        await tab.hello()
        await tab.close()
        return
    with pytest.raises(ConnectionError):
        await tab.hello()
    assert await tab.closed() == 4003


async def test_a_frame_over_64_kib_is_closed_with_1009(house: House) -> None:
    async with await house.tab() as tab:
        await tab.send({"type": "ping", "data": {"t": 1, "fill": "x" * (MAX_FRAME_BYTES - 200)}})
        await tab.ping()
        await tab.send({"type": "ping", "data": {"t": 1, "fill": "x" * MAX_FRAME_BYTES}})
        assert await tab.closed() == 1009


async def test_malformed_frames_get_an_error_and_too_many_of_them_1008(house: House) -> None:
    async with await house.tab() as tab:
        for _ in range(MAX_BAD_FRAMES - 1):
            await tab.send_raw("{")
        await tab.ping()
        assert [error["errorCode"] for error in tab.errors] == [400] * (MAX_BAD_FRAMES - 1)
        await tab.send_raw(b"\x00\x01")
        assert await tab.closed() == 1008


async def test_a_text_that_is_not_utf8_is_closed_with_1007(house: House) -> None:
    tab = await house.tab()
    async with tab:
        assert tab._socket is not None
        await tab._socket.send(b"\xff\xfe", text=True)
        assert await tab.closed() == 1007


async def test_frames_that_follow_hello_at_once_wait_for_its_answer(house: House) -> None:
    token = await house.session()
    origin: Any = f"http://127.0.0.1:{house.bridge.port}"
    async with connect(house.bridge.url, origin=origin, proxy=None) as socket:
        for number, (kind, data) in enumerate(
            [
                ("hello", {"token": token, "clientId": "tab"}),
                ("session-bind", {"sessionId": "s_1"}),
                ("client-tool-register", {"tools": [{"name": "location_get", "surprise": 1}]}),
                ("ping", {"t": 7}),
            ]
        ):
            await socket.send(json.dumps({"id": str(number), "type": kind, "data": data}))
        replies = [as_json(await socket.recv()) for _ in range(4)]
    assert [(reply["type"], reply["replyTo"]) for reply in replies] == [
        ("ack", "0"),
        ("ack", "1"),
        ("ack", "2"),
        ("pong", "3"),
    ]
    assert replies[3]["data"]["t"] == 7


async def test_who_was_told_registered_is_found(house: House) -> None:
    """An agent that calls right after the page's ack must not hear that there is no client."""
    async with await house.tab():
        [client] = await house.brain.bus.directory.clients(house.tenant, "s_1", None)
        assert [tool.name for tool in client.tools] == ["location_get"]


# --- pages ----------------------------------------------------------------------------------------------------------


async def test_a_code_gives_its_token_once(house: House) -> None:
    token = await house.session()
    await house.code("secret-code", token)
    async with httpx.AsyncClient(base_url=house.bridge.http) as http:
        first = await http.post("/chat/exchange", json={"code": "secret-code"})
        again = await http.post("/chat/exchange", json={"code": "secret-code"})
        wrong = await http.post("/chat/exchange", json={"code": "nope"})
    assert first.status_code == 200
    assert first.json() == {"token": token, "sessionId": "s_1", "socketUrl": "/ws", "user": "anna"}
    assert first.headers["cache-control"] == "no-store"
    for refused in (again, wrong):
        assert refused.status_code == 410
        assert refused.json()["code"] == "code_gone"


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"code": 1}', b'{"code": "a", "more": 1}', b"\xff"])
async def test_a_request_that_is_none_is_422(house: House, body: bytes) -> None:
    async with httpx.AsyncClient(base_url=house.bridge.http) as http:
        response = await http.post("/chat/exchange", content=body)
        assert response.status_code == 422
        assert response.json()["code"] == "invalid_request"
        assert (await http.post("/chat/exchange", content=b"x" * 5_000)).status_code == 413


async def test_pages_are_served_with_their_headers(house: House) -> None:
    async with httpx.AsyncClient(base_url=house.bridge.http) as http:
        page = await http.get("/chat")
        assert page.status_code == 200
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["permissions-policy"].startswith("geolocation=(self)")
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] == "no-referrer"

        module = await http.get("/client/index.js")
        assert module.status_code == 200
        assert module.headers["content-type"].startswith("text/javascript")
        assert module.headers["access-control-allow-origin"] == "*"
        etag = module.headers["etag"]
        assert (await http.get("/client/index.js", headers={"if-none-match": etag})).status_code == 304

        for nothing in ("/client/nothing.js", "/client/..%2Fapp.py", "/client/%2e%2e/app.py", "/chat/__init__.py"):
            assert (await http.get(nothing)).status_code == 404
        assert (await http.get("/readyz")).json()["ready"] is True
        assert "hereabouts_edge_connections" in (await http.get("/metrics")).text
