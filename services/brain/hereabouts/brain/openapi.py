"""The OpenAPI document: FastAPI's own for ordinary endpoints, the invocation and errors added from the schemas."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from hereabouts.schemas.answers import LocationAnswer, ToolAnswer
from hereabouts.schemas.errors import ErrorBody
from hereabouts.schemas.http import InvocationRequest, SessionRequest

from .routes import INVOCATIONS_PATH

_REF = "#/components/schemas/{model}"
_ANSWER: TypeAdapter[Any] = TypeAdapter(LocationAnswer | ToolAnswer)

_ERRORS = {
    "400": "The body is not UTF-8 JSON, or is nested too deeply.",
    "401": "No key or token, or one that does not hold.",
    "403": "The token may not do this.",
    "404": "There is no such thing, or it is another tenant's.",
    "409": "The request does not name exactly one client, or the client's tool cannot be used.",
    "413": "The body is too large.",
    "422": "The request is JSON but not valid; `details.problems` says where.",
    "503": "The bus does not answer, or this process is ending. `Retry-After` says when to try again.",
}


def document(app: FastAPI) -> dict[str, Any]:
    """The whole document, made once."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas: dict[str, Any] = made.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)  # FastAPI's own error shape is never sent
    schemas["ErrorBody"] = _schema(ErrorBody.model_json_schema(ref_template=_REF), schemas)
    request = _schema(InvocationRequest.model_json_schema(ref_template=_REF), schemas)
    request["properties"]["timeout_ms"] = {
        "type": "number",
        "minimum": 1,
        "description": request["properties"]["timeout_ms"]["description"],
    }
    schemas["InvocationRequest"] = request
    schemas["SessionRequest"] = _schema(SessionRequest.model_json_schema(ref_template=_REF), schemas)
    schemas["Answer"] = _schema(_ANSWER.json_schema(ref_template=_REF), schemas)
    made["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "a tenant's API key or a session's agent token"}
    }
    made["security"] = [{"bearer": []}]
    made["paths"]["/v1/sessions"]["post"]["requestBody"] = _body("SessionRequest", required=False)
    made["paths"][INVOCATIONS_PATH] = {
        "post": {
            "summary": "Invoke",
            "description": "One call of one tool. The answer always comes, by `budget_ms`; a refusal is an answer, too.",
            "operationId": "invoke",
            "parameters": [{"name": "session_id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "requestBody": _body("InvocationRequest", required=True),
            "responses": {"200": _response("The answer", "Answer")},
        }
    }
    for path, operations in made["paths"].items():
        for operation in operations.values():
            responses = operation["responses"]
            responses.update({status: _response(text, "ErrorBody") for status, text in _ERRORS.items()})
            names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
            operation["parameters"] = [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
            ]
    app.openapi_schema = made
    return made


def _schema(schema: dict[str, Any], into: dict[str, Any]) -> dict[str, Any]:
    """A model's schema with its definitions moved to the components."""
    into.update(schema.pop("$defs", {}))
    return schema


def _body(name: str, *, required: bool) -> dict[str, Any]:
    return {"required": required, "content": {"application/json": {"schema": {"$ref": _REF.format(model=name)}}}}


def _response(text: str, name: str) -> dict[str, Any]:
    return {
        "description": text,
        "content": {"application/json": {"schema": {"$ref": _REF.format(model=name)}}},
    }
