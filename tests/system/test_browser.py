"""The page in a real Chromium, through every service: what the agent gets over HTTP is what is looked at."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hereabouts.testing.stack import Stack
from tests.support.cdp import Browser, Screen, Tab, click_until
from tests.support.leaks import SENTINELS
from tests.support.system import Session
from tests.support.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.system]

LATITUDE, LONGITUDE = SENTINELS[0]
ACCURACY = 35
NEVER_ASKED = "window.__asked === 0"
COUNT_REQUESTS = """
    window.__asked = 0;
    const ask = Geolocation.prototype.getCurrentPosition;
    Geolocation.prototype.getCurrentPosition = function (...rest) { window.__asked++; return ask.apply(this, rest); };
"""
"""Counts the page's requests to the browser and passes each on: the browser stays the real one."""

NewBrowser = Callable[..., Awaitable[Browser]]


@pytest.fixture
async def new_browser(tmp_path: Path) -> AsyncIterator[NewBrowser]:
    started: list[Browser] = []

    async def start(*flags: str, display: str | None = None) -> Browser:
        browser = await Browser.start(tmp_path / f"profile{len(started)}", *flags, display=display)
        started.append(browser)
        return browser

    yield start
    for browser in started:
        await browser.close()


@pytest.fixture
async def browser(new_browser: NewBrowser) -> Browser:
    return await new_browser()


@pytest.fixture
async def screen() -> AsyncIterator[Screen]:
    started = await Screen.start()
    yield started
    await started.close()


async def open_page(browser: Browser, session: Session, origin: str, setting: Any = None) -> Tab:
    """A tab with the chat page, bound and registered."""
    tab = await browser.tab()
    await tab.position(LATITUDE, LONGITUDE, ACCURACY)
    if setting is not None:
        await tab.permission(setting, origin)
    await tab.goto(session.page_url)
    await session.clients(1)
    return tab


def assert_is_the_place(answer: dict[str, Any]) -> None:
    assert answer["status"] == "GRANTED", answer
    assert answer["latitude"] == pytest.approx(LATITUDE)
    assert answer["longitude"] == pytest.approx(LONGITUDE)
    assert answer["accuracy"] == ACCURACY
    assert answer["source"] == "browser"
    assert answer["precision"] == "precise"
    assert answer["answered_by"]["kind"] == "tab"
    assert answer["retry"] == "never"


async def test_granted(browser: Browser, session: Session, browser_url: str) -> None:
    await open_page(browser, session, browser_url, "granted")
    answer = await session.invoke(purpose="to find a café near you")
    assert_is_the_place(answer)
    assert answer["time_zone"]


async def test_declined_when_the_person_has_denied(browser: Browser, session: Session, browser_url: str) -> None:
    await open_page(browser, session, browser_url, "denied")
    answer = await session.invoke()
    assert (answer["status"], answer["reason"], answer["retry"]) == ("DECLINED", "denied", "never")


async def test_declined_when_the_person_dismisses_the_prompt(
    browser: Browser, session: Session, browser_url: str
) -> None:
    await open_page(browser, session, browser_url, "prompt")  # headless: a prompt is dismissed at once
    answer = await session.invoke()
    assert (answer["status"], answer["reason"], answer["retry"]) == ("DECLINED", "dismissed", "never")


async def test_pending_in_a_hidden_tab_then_granted_without_a_second_request(
    browser: Browser, session: Session, browser_url: str
) -> None:
    tab = await browser.tab()
    await tab.at_start(COUNT_REQUESTS)
    await tab.position(LATITUDE, LONGITUDE, ACCURACY)
    await tab.permission("granted", browser_url)
    await tab.goto(session.page_url)
    await session.clients(1)
    await tab.hide()
    first = await session.invoke()
    assert (first["status"], first["reason"], first["retry"]) == ("PENDING", "tab_hidden", "after_wait")
    await tab.activate()
    await tab.until("document.visibilityState === 'visible'", "the tab to be shown")
    assert_is_the_place(await session.invoke())
    assert await tab.evaluate("window.__asked") <= 2


async def test_a_real_prompt_is_pending_then_allowed_and_the_next_call_is_granted(
    new_browser: NewBrowser, screen: Screen, session: Session, browser_url: str
) -> None:
    browser = await new_browser(display=screen.display)
    tab = await browser.tab()
    await tab.at_start(COUNT_REQUESTS)
    await tab.position(LATITUDE, LONGITUDE, ACCURACY)
    await tab.goto(session.page_url)
    await session.clients(1)
    first = await session.invoke()
    assert (first["status"], first["reason"], first["retry"]) == ("PENDING", "prompt_open", "after_wait")
    assert first["elapsed_ms"] <= 5_000
    state = "navigator.permissions.query({name: 'geolocation'}).then(s => s.state)"
    assert await tab.evaluate(state) == "prompt"
    again = await session.invoke(timeout_ms=1_000)
    assert (again["status"], again["reason"]) == ("PENDING", "prompt_open")
    assert await tab.evaluate("window.__asked") == 1, "a second call joins the open prompt"
    await click_until(screen, 285, 216, tab, f"{state}.then(s => s === 'granted')", "the person's Allow")
    assert_is_the_place(await session.invoke())


async def test_unavailable_without_geolocation(browser: Browser, session: Session) -> None:
    tab = await browser.tab()
    await tab.at_start("delete Navigator.prototype.geolocation")
    await tab.goto(session.page_url)
    await session.clients(1)
    answer = await session.invoke()
    assert (answer["status"], answer["reason"], answer["retry"]) == ("UNAVAILABLE", "unsupported", "never")


async def test_unavailable_when_the_device_finds_no_position(
    browser: Browser, session: Session, browser_url: str
) -> None:
    tab = await open_page(browser, session, browser_url, "granted")
    await tab.no_position()
    answer = await session.invoke()
    assert (answer["status"], answer["reason"]) == ("UNAVAILABLE", "position_unavailable")


async def test_unavailable_on_an_insecure_origin(
    new_browser: NewBrowser, session: Session, browser_url: str, allow_origin: Callable[[str], Awaitable[None]]
) -> None:
    insecure = browser_url.replace("127.0.0.1", "insecure.test")
    await allow_origin(insecure)
    browser = await new_browser("--host-resolver-rules=MAP insecure.test 127.0.0.1")
    tab = await browser.tab()
    await tab.goto(session.page_url.replace(browser_url, insecure))
    await session.clients(1)
    assert await tab.evaluate("isSecureContext") is False
    answer = await session.invoke()
    assert (answer["status"], answer["reason"]) == ("UNAVAILABLE", "insecure_context")


async def test_unavailable_when_the_permissions_policy_forbids_it(
    browser: Browser, session: Session, browser_url: str
) -> None:
    tab = await browser.tab()
    await tab.permission("granted", browser_url)
    await tab.response_headers({"Permissions-Policy": "geolocation=()"})
    await tab.goto(session.page_url)
    await session.clients(1)
    answer = await session.invoke()
    assert (answer["status"], answer["reason"]) == ("UNAVAILABLE", "permissions_policy")


async def test_without_the_permissions_api_the_request_speaks_for_itself(
    browser: Browser, session: Session, browser_url: str
) -> None:
    tab = await browser.tab()
    await tab.at_start("delete Navigator.prototype.permissions")
    await tab.position(LATITUDE, LONGITUDE, ACCURACY)
    await tab.permission("granted", browser_url)
    await tab.goto(session.page_url)
    await session.clients(1)
    assert_is_the_place(await session.invoke())


async def test_a_reload_after_a_grant_needs_no_new_link_and_no_prompt(
    browser: Browser, session: Session, browser_url: str
) -> None:
    tab = await open_page(browser, session, browser_url, "granted")
    assert_is_the_place(await session.invoke())
    before = (await session.clients(1))[0]
    await tab.reload()

    async def again() -> bool:
        return any(c["since_ms"] > before["since_ms"] for c in (await session.view())["clients"])

    await until(again, "the reloaded page to register")
    await session.clients(1)
    assert_is_the_place(await session.invoke())


@pytest.mark.parametrize("end", ["kill", "terminate"])
async def test_a_socket_that_was_cut_comes_back_by_itself(
    browser: Browser, session: Session, browser_url: str, stack: Stack, end: str
) -> None:
    """The bridge crashes, or is restarted in good order; nobody touches the page."""
    tab = await browser.tab()
    await tab.at_start(COUNT_REQUESTS)
    await tab.position(LATITUDE, LONGITUDE, ACCURACY)
    await tab.permission("granted", browser_url)
    await tab.goto(session.page_url)
    await session.clients(1)
    assert_is_the_place(await session.invoke())
    await asyncio.to_thread(getattr(stack, end), "browser-bridge")
    await session.no_clients()
    gone = await session.invoke()
    assert (gone["status"], gone["reason"]) == ("UNAVAILABLE", "no_client")
    await asyncio.to_thread(stack.restart, "browser-bridge")
    await session.clients(1)
    assert_is_the_place(await session.invoke())
    assert await tab.evaluate("window.__asked") == 2


async def test_the_address_holds_no_code_once_the_page_has_it(
    browser: Browser, session: Session, browser_url: str
) -> None:
    tab = await open_page(browser, session, browser_url, "granted")
    assert await tab.evaluate("location.hash") == ""
    second = await browser.tab()
    await second.goto(session.page_url)
    await second.until("document.body.innerText.length > 0", "the page to say something")
    assert len(await session.clients(1)) == 1, "a used code opens nothing"


async def test_switching_sharing_off_declines_and_approximate_is_coarse(
    browser: Browser, session: Session, browser_url: str
) -> None:
    tab = await open_page(browser, session, browser_url, "granted")
    await tab.until("document.querySelectorAll('input[type=checkbox]').length >= 2", "the page's two switches")
    await tab.evaluate("document.querySelector('#approximate').click()")
    rough = await session.invoke()
    assert (rough["status"], rough["precision"]) == ("GRANTED", "approximate")
    assert rough["accuracy"] >= 2_000
    assert rough["latitude"] != pytest.approx(LATITUDE, abs=1e-6)
    await tab.evaluate("document.querySelector('#sharing').click()")
    answer = await session.invoke()
    assert (answer["status"], answer["reason"]) == ("DECLINED", "sharing_off")


async def test_a_bare_socket_cannot_register_tools(browser: Browser, session: Session, browser_url: str) -> None:
    """From a real page: hello without a session, then client-tool-register."""
    tab = await browser.tab()
    await tab.goto(f"{browser_url}/chat")
    frames = [
        {
            "id": "1",
            "type": "hello",
            "data": {
                "token": session.made["client_token"],
                "clientId": "bare",
                "visibility": "visible",
                "focused": True,
                "permission": "prompt",
                "sharing": "on",
                "timeZone": "Europe/Vienna",
                "languages": ["de-AT"],
            },
        },
        {
            "id": "2",
            "type": "client-tool-register",
            "data": {"tools": [{"name": "location_get", "description": "", "paramsSchema": {}}]},
        },
    ]
    reply = await tab.evaluate(
        f"""new Promise((resolve, reject) => {{
            const frames = {json.dumps(frames)};
            const socket = new WebSocket(location.origin.replace('http', 'ws') + '/ws');
            socket.onopen = () => frames.forEach(f => socket.send(JSON.stringify(f)));
            socket.onmessage = e => {{ const m = JSON.parse(e.data); if (m.replyTo === '2') resolve(m); }};
            socket.onclose = e => reject(new Error('closed ' + e.code));
        }})"""
    )
    assert reply["data"]["errorCode"] == 403
    assert reply["data"]["errorMessage"] == "requires a bound session"


async def test_a_closed_tab_disappears_at_once(browser: Browser, session: Session, browser_url: str) -> None:
    tab = await open_page(browser, session, browser_url, "granted")
    await tab.close()
    await session.no_clients()
    answer = await session.invoke()
    assert (answer["status"], answer["reason"]) == ("UNAVAILABLE", "no_client")
