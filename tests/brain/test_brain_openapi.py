"""The OpenAPI document against the API itself: whatever it allows is answered as it says, and nothing is a 500."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from hereabouts.brain.app import Brain
from hereabouts.brain.settings import BrainSettings
from hereabouts.bus.memory import MemoryBus, MemoryHub
from hereabouts.runtime.keyring import KeyRing
from hereabouts.runtime.spans import SpanExport
from hereabouts.schemas.records import Role

R = TypeVar("R")

OPERATIONS = {
    ("POST", "/v1/sessions"),
    ("GET", "/v1/sessions/{session_id}"),
    ("GET", "/v1/sessions/{session_id}/tools"),
    ("POST", "/v1/sessions/{session_id}/invocations"),
    ("DELETE", "/v1/sessions/{session_id}"),
    ("GET", "/v1/invocations/{correlation_id}"),
    ("GET", "/v1/tools"),
}


def document() -> dict[str, Any]:
    """The document, from a brain that is never started."""
    bus = MemoryBus(MemoryHub(), Role.BRAIN)
    brain = Brain(bus, BrainSettings(), KeyRing.derive("for the document only, never used to sign"), SpanExport(0, 1))
    return brain.app.openapi()


schema = schemathesis.openapi.from_dict(document())
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


class OtherThread:
    """An event loop in a thread of its own, since schemathesis drives ordinary functions."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=30)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="module")
def send(make_house: Callable[[], Any]) -> Iterator[Callable[[Any], Any]]:
    """Sends a case to a running brain: half of them for a real session with a client that answers."""
    thread = OtherThread()
    context = make_house()
    house = thread.run(context.__aenter__())
    session = thread.run(house.session())["session_id"]
    thread.run(house.edge.register(session))
    house.edge.on_ask = house.edge.answer
    count = 0
    invoked: set[int] = set()

    async def sent(case: Any) -> Any:
        nonlocal count
        count += 1
        if "session_id" in (case.path_parameters or {}) and count % 2 and case.method != "DELETE":
            case.path_parameters["session_id"] = session
        kwargs = case.as_transport_kwargs(base_url="http://brain", headers={"Authorization": f"Bearer {house.key}"})
        kwargs.pop("cookies", None)
        kwargs = {k: v for k, v in kwargs.items() if v is not None}
        if "data" in kwargs:
            kwargs["content"] = kwargs.pop("data")
        request = house.http.build_request(**kwargs)
        response = await house.http.send(request)
        if case.path.endswith("/invocations"):
            invoked.add(response.status_code)
        return response

    yield lambda case: thread.run(sent(case))
    assert not invoked or {200, 404, 422} <= invoked  # both worlds were visited
    thread.run(context.__aexit__(None, None, None))
    thread.close()


@schema.parametrize()
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_api_keeps_its_document(case: Any, send: Callable[[Any], Any]) -> None:
    case.validate_response(send(case), checks=CHECKS)


async def test_the_document_lists_every_operation(house: Any) -> None:
    served = (await house.http.get("/openapi.json")).json()
    found = {(method.upper(), path) for path, operations in served["paths"].items() for method in operations}
    assert found == OPERATIONS
    assert "HTTPValidationError" not in served["components"]["schemas"]
