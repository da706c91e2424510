"""Both flavours of the client against a scripted service, over httpx's own transport."""

import inspect
import json
from collections.abc import Callable

import httpx
import pytest

from hereabouts.client import (
    AnswerLost,
    Granted,
    Hereabouts,
    ServiceError,
    SyncHereabouts,
    ToolAnswer,
    Unreachable,
    operations,
)
from hereabouts.schemas.answers import granted, refused
from hereabouts.schemas.errors import AmbiguousClient, NotFound
from hereabouts.schemas.fixes import Precision, Source
from hereabouts.schemas.limits import BRAIN_BUDGET_MS
from hereabouts.schemas.outcomes import Reason, Retry
from hereabouts.schemas.tools import LocationArguments

URL = "http://brain.test"
COMMON = {"correlation_id": "c", "trace_id": "t", "elapsed_ms": 1, "budget_ms": 5_000, "dispatched": True}
GRANTED = granted(
    latitude=1.5,
    longitude=2.5,
    accuracy=10,
    timestamp="2026-01-01T00:00:00Z",
    received_at="2026-01-01T00:00:00Z",
    precision=Precision.PRECISE,
    source=Source.GPS,
    **COMMON,
)


class Service:
    """Answers what it is told and keeps what it was asked."""

    def __init__(self, answer: httpx.Response | Exception) -> None:
        self.answer = answer
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def client(answer: httpx.Response | Exception) -> tuple[SyncHereabouts, Service]:
    service = Service(answer)
    return SyncHereabouts(URL + "/", "hb_key", transport=httpx.MockTransport(service)), service


def test_location_sends_only_what_was_said_and_reads_the_answer() -> None:
    hereabouts, service = client(httpx.Response(200, json=GRANTED.model_dump(mode="json")))
    answer = hereabouts.location(
        "s/1", LocationArguments(max_age_ms=5), 900, "To find a café", traceparent="00-" + "a" * 32
    )
    assert isinstance(answer, Granted)
    assert answer.latitude == 1.5
    (request,) = service.requests
    assert str(request.url) == f"{URL}/v1/sessions/s%2F1/invocations"
    assert request.headers["authorization"] == "Bearer hb_key"
    assert request.headers["traceparent"].startswith("00-")
    assert json.loads(request.content) == {
        "tool": "location_get",
        "arguments": {"max_age_ms": 5},
        "timeout_ms": 900,
        "purpose": "To find a café",
        "route": "best",
    }


@pytest.mark.parametrize("reason", [Reason.DENIED, Reason.PROMPT_OPEN, Reason.NO_CLIENT])
def test_a_refusal_is_an_answer(reason: Reason) -> None:
    hereabouts, _ = client(httpx.Response(200, json=refused(reason, **COMMON).model_dump(mode="json")))
    assert hereabouts.location("s_1").reason is reason  # type: ignore[union-attr]


def test_another_tools_answer_is_read_as_such() -> None:
    content = ToolAnswer(status="OK", message="m", retry=Retry.NEVER, untrusted_result={"a": 1}, **COMMON)
    hereabouts, _ = client(httpx.Response(200, json=content.model_dump(mode="json")))
    answer = hereabouts.invoke("s_1", "clipboard_read")
    assert isinstance(answer, ToolAnswer)
    assert answer.untrusted_result == {"a": 1}


@pytest.mark.parametrize(
    ("status", "body", "kind", "text"),
    [
        (404, NotFound(what="session").body("abc").model_dump(), NotFound, "There is no session"),
        (409, AmbiguousClient(candidates=["a", "b"]).body().model_dump(), AmbiguousClient, "More than one"),
        (404, {"code": "not_found", "message": "Another text.", "details": {}}, NotFound, "Another text."),
        (400, {"code": "from_the_future", "message": "New."}, ServiceError, "New. \\(from_the_future\\)"),
        (502, "<html>bad gateway", ServiceError, "answered 502"),
        (200, {"status": "SOMETHING"}, ServiceError, "answered 200"),
    ],
)
def test_errors_come_back_as_their_classes(status: int, body: object, kind: type[Exception], text: str) -> None:
    hereabouts, _ = client(httpx.Response(status, json=body))
    with pytest.raises(kind, match=text) as error:
        hereabouts.location("s_1")
    if status == 409:
        assert error.value.details == {"candidates": ["a", "b"]}  # type: ignore[attr-defined]
    if isinstance(body, dict) and body.get("trace_id"):
        assert error.value.__notes__ == ["trace id: abc"]


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        (httpx.ConnectError("refused"), Unreachable),
        (httpx.ReadTimeout("slow"), AnswerLost),
        (httpx.RemoteProtocolError("closed"), AnswerLost),
    ],
)
def test_a_lost_connection_is_told_apart_and_never_retried(problem: Exception, kind: type[Exception]) -> None:
    hereabouts, service = client(problem)
    with pytest.raises(kind):
        hereabouts.location("s_1")
    assert len(service.requests) == 1


def test_the_brains_last_resort_comes_before_the_clients_patience() -> None:
    assert operations.READ_TIMEOUT_S * 1_000 > BRAIN_BUDGET_MS


async def test_the_asynchronous_client_does_the_same() -> None:
    service = Service(httpx.Response(200, json=GRANTED.model_dump(mode="json")))
    async with Hereabouts(URL, "hb_key", transport=httpx.MockTransport(service)) as hereabouts:
        assert isinstance(await hereabouts.location("s_1"), Granted)
        service.answer = httpx.Response(404, json=NotFound(what="call").body().model_dump())
        with pytest.raises(NotFound):
            await hereabouts.invocation("c")
        service.answer = httpx.Response(204)
        await hereabouts.end_session("s_1")
    assert [request.method for request in service.requests] == ["POST", "GET", "DELETE"]


def test_both_flavours_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        found: list[tuple[str, Callable[..., object]]] = inspect.getmembers(kind, inspect.isfunction)
        return {name: list(inspect.signature(one).parameters) for name, one in found if not name.startswith("_")}

    assert methods(Hereabouts) == methods(SyncHereabouts)
