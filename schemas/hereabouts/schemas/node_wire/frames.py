"""The three frames of the node dialect, and reading them."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import from_json

from ..base import WireModel


class NodeWireModel(WireModel):
    """A part of the node dialect.

    Inbound, unknown fields are ignored and an explicit null is the same as a missing field (Windows sends them);
    outbound, `wire` leaves out what is not set.
    """

    @model_validator(mode="before")
    @classmethod
    def _null_is_missing(cls, data: Any) -> Any:
        return {key: value for key, value in data.items() if value is not None} if isinstance(data, dict) else data

    def wire(self) -> dict[str, Any]:
        """The JSON object for the socket."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class ErrorCode(StrEnum):
    """`error.code` of a response."""

    INVALID_REQUEST = "INVALID_REQUEST"
    NOT_PAIRED = "NOT_PAIRED"
    UNAVAILABLE = "UNAVAILABLE"
    AGENT_TIMEOUT = "AGENT_TIMEOUT"


class DetailCode(StrEnum):
    """`error.details.code` of a refused handshake; real clients decide by it whether to try again."""

    PROTOCOL_MISMATCH = "PROTOCOL_MISMATCH"
    AUTH_TOKEN_MISSING = "AUTH_TOKEN_MISSING"  # noqa: S105
    AUTH_TOKEN_MISMATCH = "AUTH_TOKEN_MISMATCH"  # noqa: S105
    AUTH_DEVICE_TOKEN_MISMATCH = "AUTH_DEVICE_TOKEN_MISMATCH"  # noqa: S105
    AUTH_RATE_LIMITED = "AUTH_RATE_LIMITED"
    DEVICE_IDENTITY_REQUIRED = "DEVICE_IDENTITY_REQUIRED"
    DEVICE_AUTH_INVALID = "DEVICE_AUTH_INVALID"
    DEVICE_AUTH_DEVICE_ID_MISMATCH = "DEVICE_AUTH_DEVICE_ID_MISMATCH"
    DEVICE_AUTH_PUBLIC_KEY_INVALID = "DEVICE_AUTH_PUBLIC_KEY_INVALID"
    DEVICE_AUTH_NONCE_REQUIRED = "DEVICE_AUTH_NONCE_REQUIRED"
    DEVICE_AUTH_NONCE_MISMATCH = "DEVICE_AUTH_NONCE_MISMATCH"
    DEVICE_AUTH_SIGNATURE_EXPIRED = "DEVICE_AUTH_SIGNATURE_EXPIRED"
    DEVICE_AUTH_SIGNATURE_INVALID = "DEVICE_AUTH_SIGNATURE_INVALID"
    PAIRING_REQUIRED = "PAIRING_REQUIRED"


class Error(NodeWireModel):
    """Why a request failed. `details` never holds coordinates, `retry_after_ms` is a wish for the next try."""

    code: str
    message: str
    details: Any = None
    retryable: bool | None = None
    retry_after_ms: int | None = Field(default=None, ge=0)

    @property
    def detail_code(self) -> str | None:
        """`details.code`, if the sender gave one."""
        code = self.details.get("code") if isinstance(self.details, dict) else None
        return code if isinstance(code, str) else None


class Request(NodeWireModel):
    """`{"type":"req"}`: either side asks. Parameters are not shown by `repr`: they may hold a position or a token."""

    type: Literal["req"] = "req"
    id: str = Field(min_length=1)
    method: str = Field(min_length=1)
    params: Any = Field(default=None, repr=False)
    traceparent: str | None = Field(default=None, max_length=128)


class Response(NodeWireModel):
    """`{"type":"res"}`: the answer to the request with the same id."""

    type: Literal["res"] = "res"
    id: str = Field(min_length=1)
    ok: bool
    payload: Any = Field(default=None, repr=False)
    error: Error | None = None


class StateVersion(NodeWireModel):
    presence: int = 0
    health: int = 0


class Event(NodeWireModel):
    """`{"type":"event"}`: told, not asked."""

    type: Literal["event"] = "event"
    event: str = Field(min_length=1)
    payload: Any = Field(default=None, repr=False)
    seq: int | None = Field(default=None, ge=0)
    state_version: StateVersion | None = None


Frame = Annotated[Request | Response | Event, Field(discriminator="type")]

_FRAME: TypeAdapter[Request | Response | Event] = TypeAdapter(Frame)


class FrameError(ValueError):
    """A frame that cannot be read. Its text never repeats what was in it."""


class NotJson(FrameError):
    """No JSON object at all; before `connect` this closes the socket with 1000."""

    def __init__(self) -> None:
        super().__init__("frame is not a JSON object")


class InvalidFrame(FrameError):
    """JSON, but none of the three frames.

    Attributes:
        request_id: the id to answer with INVALID_REQUEST, where the frame had one.
        problem: the fields at fault and why.
    """

    def __init__(self, request_id: str | None, problem: str) -> None:
        self.request_id = request_id
        self.problem = problem
        super().__init__(f"invalid frame: {problem}")


def parse_frame(text: str | bytes) -> Request | Response | Event:
    """Read one text frame.

    Raises:
        NotJson: not JSON (NaN and Infinity are not), nested too deeply, or not an object.
        InvalidFrame: an object that is no frame.
    """
    try:
        data = from_json(text, allow_inf_nan=False)
    except ValueError:
        raise NotJson from None
    if not isinstance(data, dict):
        raise NotJson
    try:
        return _FRAME.validate_python(data)
    except ValidationError as error:
        request_id = data.get("id") if data.get("type") == "req" else None
        raise InvalidFrame(
            request_id if isinstance(request_id, str) and request_id else None, validation_problems(error)
        ) from None


def validation_problems(error: ValidationError) -> str:
    """The fields at fault and why, without any input: fit for an error message to the other side."""
    problems = (
        (".".join(str(part) for part in item["loc"][:4]), item["msg"])
        for item in error.errors(include_url=False, include_input=False, include_context=False)[:5]
    )
    return "; ".join(f"{where}: {what}" if where else what for where, what in problems)
