"""The OpenAPI document against the API itself: whatever it allows is answered as it says, and nothing is a 500."""

from typing import Any

import anyio.from_thread
import pytest
import schemathesis
import schemathesis.checks
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

OPERATIONS = (
    ("POST", "/v1/sessions"),
    ("GET", "/v1/sessions/{session_id}"),
    ("GET", "/v1/sessions/{session_id}/tools"),
    ("POST", "/v1/sessions/{session_id}/invocations"),
    ("DELETE", "/v1/sessions/{session_id}"),
    ("GET", "/v1/invocations/{correlation_id}"),
    ("GET", "/v1/tools"),
)


async def test_the_document_lists_every_operation(house: Any) -> None:
    document = (await house.http.get("/openapi.json")).json()
    found = {
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
        if path.startswith("/v1")
    }
    assert found == set(OPERATIONS)
    assert "HTTPValidationError" not in document["components"]["schemas"]
