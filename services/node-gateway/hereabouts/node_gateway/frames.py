"""Frames that the gateway sends, as text, and reading the parameters of those it gets."""

import json
from typing import Any, TypeVar

from pydantic import ValidationError

from hereabouts.edge.dialect import Action, Rejected, Send
from hereabouts.schemas.node_wire import Error, ErrorCode, EventName, NodeWireModel, Request, validation_problems


def response(request_id: str, payload: NodeWireModel) -> Send:
    """The answer to a request that went well."""
    return _text({"type": "res", "id": request_id, "ok": True, "payload": payload.wire()})


def failure(request_id: str, error: Error) -> Send:
    """The answer to a request that did not."""
    return _text({"type": "res", "id": request_id, "ok": False, "error": error.wire()})


def event(name: EventName, payload: NodeWireModel) -> Send:
    """Something that the client did not ask for."""
    return _text({"type": "event", "event": name.value, "payload": payload.wire()})


def _text(frame: dict[str, Any]) -> Send:
    # ASCII only: a request id may hold half a surrogate pair, which no UTF-8 encoder would take.
    return Send(json.dumps(frame, separators=(",", ":"), allow_nan=False))


M = TypeVar("M", bound=NodeWireModel)


def invalid(message: str) -> Error:
    """The error for a request that cannot be right."""
    return Error(code=ErrorCode.INVALID_REQUEST, message=message)


def reject(request: Request, message: str, cause: str) -> list[Action]:
    """Refuse a request and count it."""
    return [failure(request.id, invalid(message)), Rejected(cause)]


def read_params(model: type[M], request: Request) -> M | Error:
    """A request's parameters, or the error that names the fields at fault without their values."""
    try:
        return model.model_validate(request.params)
    except ValidationError as error:
        return invalid(f"invalid {request.method} params: {validation_problems(error)}")
