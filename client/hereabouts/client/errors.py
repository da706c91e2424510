"""The service's errors come back as the same classes; what only a caller can see has classes of its own."""

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from hereabouts.schemas.errors import ErrorBody, HereaboutsError


class Unreachable(HereaboutsError):
    code = "unreachable"
    http_status = 503
    template = "{base_url} cannot be reached ({problem}). The request was not sent; it may be tried again."


class AnswerLost(HereaboutsError):
    code = "answer_lost"
    http_status = 502
    template = (
        "The connection to {base_url} broke before the answer came ({problem}). The user may have been asked; "
        "asking again asks them again."
    )


class ServiceError(HereaboutsError):
    """An answer that is no error of ours: a proxy's page, another version's code."""

    code = "service_error"
    http_status = 502
    template = "{base_url} answered {status}: {problem}"


def error_from(base_url: str, status: int, content: bytes) -> HereaboutsError:
    """The error that a response with a status from 400 up stands for, with the service's own message."""
    try:
        body = ErrorBody.model_validate_json(content)
    except ValidationError:
        return ServiceError(base_url=base_url, status=status, problem="not an answer of Hereabouts")
    kind = _kinds().get(body.code)
    if kind is None:
        return ServiceError(base_url=base_url, status=status, problem=f"{body.message} ({body.code})")
    error = _with_message(kind, body.message, body.details)
    if body.trace_id is not None:
        error.add_note(f"trace id: {body.trace_id}")
    return error


def _with_message(kind: type[HereaboutsError], message: str, details: dict[str, Any]) -> HereaboutsError:
    """An error with its sender's text: another version's template may want other fields than it sent."""
    error = kind.__new__(kind)
    error.details = details
    error.args = (message,)
    return error


def _kinds() -> dict[str, type[HereaboutsError]]:
    def below(kind: type[HereaboutsError]) -> Iterator[type[HereaboutsError]]:
        for child in kind.__subclasses__():
            yield child
            yield from below(child)

    return {kind.code: kind for kind in below(HereaboutsError)}
