"""The browser dialect as the state machine it is: no socket, no clock."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hereabouts.browser_bridge.dialect import UNBOUND, BrowserDialect
from hereabouts.browser_bridge.languages import is_language, languages_of, time_zone_of
from hereabouts.browser_bridge.origins import is_origin, may_connect, origin_of
from hereabouts.browser_bridge.questions import SessionAnswer, SessionQuestion
from hereabouts.edge.dialect import (
    Action,
    Answered,
    Authenticated,
    Close,
    Decided,
    Invoke,
    Outcome,
    Peer,
    Question,
    Registration,
    Rejected,
    Reported,
    Send,
)
from hereabouts.edge.text import clean
from hereabouts.schemas.bus_messages import ClientState
from hereabouts.schemas.claims import Claims, TokenKind
from hereabouts.schemas.errors import Unauthorized
from hereabouts.schemas.fixes import Precision
from hereabouts.schemas.ids import new_correlation_id
from hereabouts.schemas.limits import MAX_BAD_FRAMES, MAX_RESULT_BYTES, MAX_TOOLS_BYTES, MAX_TOOLS_PER_CLIENT
from hereabouts.schemas.outcomes import Reason, Status

OWN = "http://127.0.0.1:8711"
WALL_MS = 1_800_000_000_000
EXP_S = WALL_MS // 1000 + 100


def verify(token: str) -> Claims:
    """Tokens of these tests: `tenant/session`."""
    tenant, _, session = token.partition("/")
    if not session:
        raise Unauthorized(problem="The token is malformed.")
    return Claims(kind=TokenKind.CLIENT, tenant=tenant, session=session, user="anna", exp=EXP_S, iat=0, jti="j")


class Socket:
    """A dialect and short ways to talk to it."""

    def __init__(self, origin: str | None = OWN) -> None:
        self.now = 0.0
        self.dialect = BrowserDialect(
            Peer(origin, "h", "a"), "c_1", own_origin=OWN, verify=verify, new_secret=lambda: "new-secret"
        )
        self.dialect.opened(0, WALL_MS)

    def say(self, kind: str, data: Any = None, id: str | None = "1") -> list[Action]:
        return self.dialect.received(json.dumps({"id": id, "type": kind, "data": data}), self.now, WALL_MS)

    def hello(self, **more: Any) -> list[Action]:
        data = {"token": "t/s", "clientId": "tab-1", "visibility": "visible", "focused": True} | more
        actions = self.say("hello", data)
        if not actions or not isinstance(actions[0], Question):
            return actions
        return self.dialect.resolved(actions[0].number, SessionAnswer(("https://app.example",)), 0, WALL_MS)

    def bound(self, *tools: str, **more: Any) -> "Socket":
        self.hello(**more)
        self.say("session-bind", {"sessionId": "s"})
        if tools:
            self.say("client-tool-register", {"tools": [{"name": name} for name in tools]})
        return self

    def asked(self, tool: str = "location_get") -> str:
        call = new_correlation_id()
        self.dialect.ask(Invoke(call, tool, {}, 4_700, True, "00-" + "1" * 32 + "-" + "2" * 16 + "-01"), 0)
        return call

    def outcome(self, call: str, result: Any, **more: Any) -> Outcome:
        [answered] = self.say("client-tool-result", {"correlationId": call, "result": result} | more)
        assert isinstance(answered, Answered)
        return answered.outcome


def frames(actions: list[Action]) -> list[dict[str, Any]]:
    return [json.loads(action.text) for action in actions if isinstance(action, Send)]


def error_of(actions: list[Action]) -> tuple[int, str]:
    [frame] = frames(actions)
    assert frame["type"] == "error"
    return frame["data"]["errorCode"], frame["data"]["errorMessage"]


GRANTED = {
    "status": "GRANTED",
    "latitude": 52.52,
    "longitude": 13.405,
    "accuracy": 20,
    "timestamp": WALL_MS,
    "ageMs": 4,
    "precision": "precise",
}

# --- any input ------------------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
KINDS = [
    "hello",
    "session-bind",
    "client-tool-register",
    "client-tool-unregister",
    "client-tool-progress",
    "client-tool-result",
    "client-tool-late-result",
    "client-state",
    "ping",
]
FIELDS = [
    "token", "clientId", "resume", "page", "visibility", "focused", "permission", "sharing", "precision", "timeZone",
    "languages", "sessionId", "tools", "names", "correlationId", "state", "prompt", "result", "error", "timings",
    "status", "t",
]  # fmt: skip
near_frames = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS) | st.text(max_size=8)},
    optional={
        "id": json_values,
        "replyTo": json_values,
        "data": st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=6) | json_values,
    },
).map(json.dumps)


@given(texts=st.lists(st.text(max_size=200) | near_frames, max_size=15), bound=st.booleans())
@settings(max_examples=400, deadline=None)
def test_no_text_raises_and_every_refusal_is_documented(texts: list[str], bound: bool) -> None:
    socket = Socket().bound("location_get") if bound else Socket()
    for text in texts:
        for action in socket.dialect.received(text, 0, WALL_MS):
            if isinstance(action, Close):
                assert action.code in (1008, 4001, 4003)
                return
            if isinstance(action, Question):
                socket.dialect.resolved(action.number, SessionAnswer(()), 0, WALL_MS)
            if isinstance(action, Send):
                frame = json.loads(action.text)
                assert frame["type"] in ("ack", "error", "pong")
                if frame["type"] == "error":
                    assert frame["data"]["errorCode"] in (400, 403)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "1", "null", '"x"', "{}", '{"type": 1}', '{"type": ""}', "[" * 3_000, '{"a": NaN}', "1" * 5_000,
     '{"type": "ping", "id": {}}', '"\\ud800"'],
)  # fmt: skip
def test_what_is_no_frame_is_400_and_the_socket_stays(text: str) -> None:
    actions = Socket().bound().dialect.received(text, 0, WALL_MS)
    assert error_of(actions)[0] == 400
    assert not any(isinstance(action, Close) for action in actions)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("nonsense", {}),
        ("client-tool-register", None),
        ("client-tool-register", {"tools": []}),
        ("client-tool-register", {"tools": [{"name": "has space"}]}),
        ("client-tool-register", {"tools": [{"name": "x" * 129}]}),
        ("client-tool-register", {"tools": [{"name": f"t{n}"} for n in range(MAX_TOOLS_PER_CLIENT + 1)]}),
        ("client-tool-register", {"tools": [{"name": "ok", "description": "x" * 4_001}]}),
        ("client-tool-register", {"tools": [{"name": "ok", "paramsSchema": []}]}),
        ("client-tool-result", {"result": {}}),
        ("client-tool-progress", {"correlationId": "x", "state": "bored"}),
        ("client-tool-late-result", {"correlationId": "x", "status": "MAYBE"}),
        ("client-state", {"visibility": "half"}),
        ("session-bind", {}),
        ("hello", {"token": "t/s", "clientId": "x"}),
        ("ping", {"t": "soon"}),
    ],
)
def test_a_bad_payload_is_400_that_names_its_request(kind: str, data: Any) -> None:
    socket = Socket().bound()
    actions = socket.say(kind, data, id="77")
    assert error_of(actions)[0] == 400
    assert frames(actions)[0]["replyTo"] == "77"
    assert any(isinstance(action, Rejected) for action in actions)


def test_an_error_never_repeats_what_was_sent() -> None:
    actions = Socket().bound().say("client-tool-register", {"tools": [{"name": "52.5200 secret"}]})
    assert "secret" not in json.dumps(frames(actions))


def test_repeated_malformed_frames_close_1008() -> None:
    socket = Socket().bound()
    for _ in range(MAX_BAD_FRAMES - 1):
        assert not any(isinstance(action, Close) for action in socket.dialect.received("{", 0, WALL_MS))
    close = socket.dialect.received_binary(0)[-1]
    assert isinstance(close, Close)
    assert close.code == 1008


# --- hello and bind -------------------------------------------------------------------------------------------------


def test_hello_asks_for_the_session_and_lets_in() -> None:
    socket = Socket()
    [question] = socket.say("hello", {"token": "t/s", "clientId": "tab"})
    assert isinstance(question, Question)
    assert question.about == SessionQuestion("t", "s", "hello")
    assert not socket.dialect.authenticated
    actions = socket.dialect.resolved(question.number, SessionAnswer(()), 5, WALL_MS)
    assert isinstance(actions[0], Authenticated)
    assert frames(actions)[0]["data"]["connectionId"] == "c_1"
    assert socket.dialect.authenticated


@pytest.mark.parametrize(
    ("origin", "token", "answer", "cause"),
    [
        (OWN, "bad", None, "token"),
        (OWN, "t/s", SessionAnswer(None), "session"),
        ("https://evil.example", "t/s", SessionAnswer(("https://app.example",)), "origin"),
        (None, "t/s", SessionAnswer(("https://app.example",)), "origin"),
    ],
)
def test_what_is_refused_at_hello_closes_4003(
    origin: str | None, token: str, answer: SessionAnswer | None, cause: str
) -> None:
    socket = Socket(origin)
    actions = socket.say("hello", {"token": token, "clientId": "tab"})
    if isinstance(actions[0], Question):
        actions = socket.dialect.resolved(actions[0].number, answer, 0, WALL_MS)
    [close] = actions
    assert isinstance(close, Close)
    assert (close.code, close.cause) == (4003, cause)


def test_a_bus_that_is_away_at_hello_closes_1013() -> None:
    socket = Socket()
    [question] = socket.say("hello", {"token": "t/s", "clientId": "tab"})
    assert isinstance(question, Question)
    [close] = socket.dialect.unresolved(question.number, 0)
    assert isinstance(close, Close)
    assert close.code == 1013


def test_the_timer_closes_a_silent_socket_only() -> None:
    socket = Socket()
    assert socket.dialect.wake_at_ms == 5_000
    assert socket.dialect.tick(4_999, WALL_MS) == []
    [close] = socket.dialect.tick(5_000, WALL_MS)
    assert isinstance(close, Close)
    assert close.code == 4001


def test_a_token_that_expires_closes_unless_refreshed() -> None:
    socket = Socket().bound()
    assert socket.dialect.wake_at_ms == 100_000
    [close] = socket.dialect.tick(100_000, WALL_MS + 100_000)
    assert isinstance(close, Close)
    assert close.code == 4003


def test_the_resume_secret_is_shown_once_and_a_new_one_is_given() -> None:
    socket = Socket()
    socket.hello(resume="old-secret")
    first, _ = socket.say("session-bind", {"sessionId": "s"})
    assert isinstance(first, Registration)
    assert (first.resume, first.resume_next) == ("old-secret", "new-secret")
    second, _ = socket.say("client-tool-register", {"tools": [{"name": "x"}]})
    assert isinstance(second, Registration)
    assert second.resume is None


@pytest.mark.parametrize(
    "kind",
    ["client-tool-register", "client-tool-unregister", "client-tool-progress", "client-tool-result",
     "client-tool-late-result"],
)  # fmt: skip
def test_nothing_of_a_session_is_done_on_an_unbound_socket(kind: str) -> None:
    socket = Socket()
    socket.hello()
    assert error_of(socket.say(kind, {"tools": []})) == (403, UNBOUND)
    assert UNBOUND == "requires a bound session"


def test_another_tenants_token_does_not_bind() -> None:
    socket = Socket().bound()
    assert error_of(socket.say("session-bind", {"sessionId": "s2", "token": "other/s2"}))[0] == 403
    assert error_of(socket.say("session-bind", {"sessionId": "s2", "token": "t/s3"}))[0] == 403


def test_unknown_fields_of_a_tool_are_kept_out() -> None:
    socket = Socket().bound()
    registration, ack = socket.say(
        "client-tool-register", {"tools": [{"name": "a.b-c", "safety": "high", "surprise": {"x": 1}}]}
    )
    assert isinstance(registration, Registration)
    [tool] = registration.record.tools
    assert set(tool.model_dump()) == {"name", "description", "params_schema", "output_schema"}
    assert frames([ack])[0]["type"] == "ack"


def test_sharing_that_is_off_is_registered_as_such() -> None:
    socket = Socket().bound("location_get")
    [registration] = socket.say("client-state", {"sharing": "off"})
    assert isinstance(registration, Registration)
    assert registration.record.sharing == "off"
    assert socket.say("client-state", {"sharing": "off"}) == []


def test_what_the_page_calls_itself_is_cleaned() -> None:
    socket = Socket()
    socket.hello(page="My\u202e \x00page\u200b", timeZone="Mars/Base", languages=["de-AT", "x y", "en"])
    registration, _ = socket.say("session-bind", {"sessionId": "s"})
    assert isinstance(registration, Registration)
    assert registration.record.label == "My page"
    assert registration.record.time_zone is None
    assert registration.record.languages == ["de-AT", "en"]


# --- results --------------------------------------------------------------------------------------------------------


def test_a_position_is_taken_as_it_is() -> None:
    socket = Socket().bound("location_get")
    outcome = socket.outcome(socket.asked(), GRANTED | {"altitude": None, "heading": 400, "speed": 1.5})
    assert outcome.status is Status.GRANTED
    assert outcome.fix is not None
    assert (outcome.fix.latitude, outcome.fix.age_ms, outcome.fix.speed, outcome.fix.heading) == (52.52, 4, 1.5, None)
    assert "52.52" not in repr(outcome)


@pytest.mark.parametrize(
    "change",
    [{"latitude": 91}, {"longitude": -181}, {"latitude": 0, "longitude": 0}, {"accuracy": -1}, {"ageMs": -600_000},
     {"ageMs": 1e300}],
)  # fmt: skip
def test_a_position_that_cannot_be_true_is_implausible(change: dict[str, Any]) -> None:
    socket = Socket().bound("location_get")
    outcome = socket.outcome(socket.asked(), GRANTED | change)
    assert (outcome.status, outcome.reason, outcome.fix) == (Status.UNAVAILABLE, Reason.IMPLAUSIBLE, None)


def test_a_number_that_is_not_finite_is_implausible() -> None:
    socket = Socket().bound("location_get")
    call = socket.asked()
    text = json.dumps({"type": "client-tool-result", "data": {"correlationId": call, "result": GRANTED}})
    [answered] = socket.dialect.received(text.replace("52.52", "1e999"), 0, WALL_MS)
    assert isinstance(answered, Answered)
    assert answered.outcome.reason is Reason.IMPLAUSIBLE


@pytest.mark.parametrize(
    "result",
    [None, [], "GRANTED", {}, {"status": "GRANTED"}, {"status": "DECLINED"}, {"status": "DECLINED", "reason": "timeout"},
     {"status": "PENDING", "reason": "denied"}, {"status": "UNAVAILABLE", "reason": "no_client"},
     {"status": "DECLINED", "reason": "policy"}, GRANTED | {"latitude": "52.52"}, GRANTED | {"latitude": True},
     GRANTED | {"precision": "vague"}],
)  # fmt: skip
def test_a_result_that_is_none_is_a_client_error(result: Any) -> None:
    socket = Socket().bound("location_get")
    outcome = socket.outcome(socket.asked(), result)
    assert (outcome.status, outcome.reason) == (Status.UNAVAILABLE, Reason.CLIENT_ERROR)


@pytest.mark.parametrize(
    ("status", "reason"),
    [("DECLINED", "denied"), ("DECLINED", "dismissed"), ("DECLINED", "sharing_off"), ("PENDING", "prompt_open"),
     ("PENDING", "acquiring"), ("PENDING", "tab_hidden"), ("UNAVAILABLE", "insecure_context"),
     ("UNAVAILABLE", "unsupported"), ("UNAVAILABLE", "permissions_policy"), ("UNAVAILABLE", "position_unavailable"),
     ("UNAVAILABLE", "timeout"), ("UNAVAILABLE", "would_prompt"), ("UNAVAILABLE", "cancelled")],
)  # fmt: skip
def test_every_reason_of_the_page_passes(status: str, reason: str) -> None:
    socket = Socket().bound("location_get")
    outcome = socket.outcome(socket.asked(), {"status": status, "reason": reason})
    assert (outcome.status, outcome.reason) == (status, reason)


def test_a_refusal_counts_as_given_now_only_after_a_prompt() -> None:
    socket = Socket().bound("location_get")
    refusal = {"status": "DECLINED", "reason": "denied"}
    assert socket.outcome(socket.asked(), refusal).during_call is False
    call = socket.asked()
    [reported] = socket.say("client-tool-progress", {"correlationId": call, "state": "prompt_open", "prompt": "a\x07b"})
    assert reported == Reported(call, ClientState.PROMPT_OPEN, "a b")
    assert socket.outcome(call, refusal).during_call is True


def test_a_position_that_crosses_the_persons_switch_is_not_told() -> None:
    socket = Socket().bound("location_get")
    call = socket.asked()
    socket.say("client-state", {"sharing": "off"})
    outcome = socket.outcome(call, GRANTED)
    assert (outcome.reason, outcome.fix) == (Reason.SHARING_OFF, None)


def test_a_position_that_crosses_the_choice_of_approximate_is_made_so() -> None:
    socket = Socket().bound("location_get")
    call = socket.asked()
    socket.say("client-state", {"precision": "approximate"})
    fix = socket.outcome(call, GRANTED | {"altitude": 30}).fix
    assert fix is not None
    assert (fix.precision, fix.altitude) == (Precision.APPROXIMATE, None)
    assert fix.accuracy >= 2_000
    assert fix.latitude != 52.52


def test_phases_are_kept_and_broken_ones_left_out() -> None:
    socket = Socket().bound("location_get")
    timings = {"clockMs": WALL_MS, "phases": [{"name": "acquiring", "startMs": 1, "endMs": 40}, {"name": "x", "startMs": 0, "endMs": 1}]}  # fmt: skip
    outcome = socket.outcome(socket.asked(), GRANTED, timings=timings)
    assert [(phase.name, phase.start_ms, phase.end_ms) for phase in outcome.phases] == [("acquiring", 1, 40)]
    assert outcome.client_clock_ms == WALL_MS
    assert socket.outcome(socket.asked(), GRANTED, timings="soon").status is Status.GRANTED


def test_another_tools_result_is_passed_on_up_to_its_size() -> None:
    socket = Socket().bound("read_page")
    payload = {"text": "ü", "n": [1, None]}
    assert socket.outcome(socket.asked("read_page"), payload).payload == payload
    too_large = socket.outcome(socket.asked("read_page"), "x" * MAX_RESULT_BYTES)
    assert (too_large.reason, too_large.payload) == (Reason.CLIENT_ERROR, None)


@pytest.mark.parametrize("error", ["it\x00 broke", {"message": "it\x00 broke"}])
def test_a_tools_own_words_are_cleaned(error: Any) -> None:
    socket = Socket().bound("read_page")
    outcome = socket.outcome(socket.asked("read_page"), None, error=error)
    assert (outcome.reason, outcome.error) == (Reason.CLIENT_ERROR, "it broke")


def test_verdicts_become_acks() -> None:
    socket = Socket().bound("location_get")
    assert frames(socket.dialect.answered("9", "accepted"))[0]["data"] == {"accepted": True}
    for verdict in ("ignored", "not_yours"):
        assert frames(socket.dialect.answered("9", verdict))[0]["data"] == {"ignored": True}  # type: ignore[arg-type]


def test_a_late_result_is_a_status_and_nothing_more() -> None:
    socket = Socket().bound("location_get")
    assert socket.say("client-tool-late-result", {"correlationId": "x", "status": "GRANTED", "latitude": 1}) == [
        Decided("x", Status.GRANTED)
    ]


def test_an_invoke_says_what_the_wire_document_says() -> None:
    socket = Socket().bound("location_get")
    invoke = Invoke("x", "location_get", {"max_age_ms": 5}, 4_700, False, "00-a-b-01", "user", 60_000, "why")
    [frame] = frames(socket.dialect.ask(invoke, 0))
    assert frame == {
        "type": "client-tool-invoke",
        "data": {
            "correlationId": "x",
            "name": "location_get",
            "params": {"max_age_ms": 5},
            "budgetMs": 4_700,
            "mayPrompt": False,
            "wait": "user",
            "waitMs": 60_000,
            "purpose": "why",
            "traceparent": "00-a-b-01",
        },
    }


# --- words ----------------------------------------------------------------------------------------------------------


@given(st.text(max_size=400))
def test_cleaned_text_is_one_short_visible_line(text: str) -> None:
    cleaned = clean(text)
    assert cleaned is None or (0 < len(cleaned) <= 80 and cleaned.isprintable() and clean(cleaned) == cleaned)


@pytest.mark.parametrize("tag", ["de", "de-AT", "zh-Hant-TW", "sr-Latn", "es-419", "de-CH-1901", "en-u-ca-gregory"])
def test_language_tags(tag: str) -> None:
    assert is_language(tag)


@pytest.mark.parametrize("tag", ["", "d", "de_AT", "de-", "-de", "de AT", "x" * 40, "dé", "12", "de-AT-AT-AT"])
def test_what_is_no_language_tag(tag: str) -> None:
    assert not is_language(tag)


def test_languages_and_time_zones_are_checked() -> None:
    assert languages_of(["de", "de", "?", "en"]) == ["de", "en"]
    assert time_zone_of("Europe/Berlin") == "Europe/Berlin"
    assert time_zone_of("Europe/../x") is None


def test_origins_are_compared_exactly() -> None:
    assert origin_of("https://Example.org:443/x") == "https://example.org"
    assert origin_of("http://[::1]:8711/") == "http://[::1]:8711"
    assert may_connect("https://a.example", OWN, ["https://a.example"])
    assert may_connect(OWN, OWN, [])
    assert not may_connect("https://a.example:8443", OWN, ["https://a.example"])
    for text in (None, "null", "https://a.example/", "a.example", "file://", "https://a.example evil"):
        assert not is_origin(text)


def test_all_tools_of_a_client_together_have_a_size() -> None:
    socket = Socket().bound()
    tools = [{"name": f"t{n}", "paramsSchema": {"description": "y" * 50_000}} for n in range(6)]
    for tool in tools[:5]:
        assert any(isinstance(action, Registration) for action in socket.say("client-tool-register", {"tools": [tool]}))
    refused = socket.say("client-tool-register", {"tools": tools[5:]})
    assert error_of(refused) == (400, f"all tools together may have {MAX_TOOLS_BYTES} bytes of JSON")
    assert Rejected("tools_too_big") in refused

    # The same name again takes the place of the earlier one, and what was there stays.
    [registration] = [
        a for a in socket.say("client-tool-register", {"tools": tools[:1]}) if isinstance(a, Registration)
    ]
    assert [tool.name for tool in registration.record.tools] == [f"t{n}" for n in range(5)]
