"""The browser dialect's frames: one envelope, camelCase, unknown fields kept out.

A request carries `id`, its reply `replyTo`, a notification neither. The names `client-tool-register`,
`client-tool-invoke`, `client-tool-result` and `correlationId` are those of earlier clients and stay.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from .base import Degrees, EpochMs, Metres, Milliseconds, WireModel
from .bus_messages import ClientState
from .fixes import Precision
from .limits import MAX_LABEL_CHARS, MAX_TOOLS_PER_CLIENT
from .outcomes import Reason, Status
from .tools import MAX_DESCRIPTION_CHARS, ToolName

MAX_ID_CHARS = 64
"""Of a request's id, a client id, a correlation id: UUIDs have 36."""

MAX_TOKEN_CHARS = 4_096
MAX_SECRET_CHARS = 128
MAX_LANGUAGES = 10
MAX_LANGUAGE_CHARS = 35
"""The length that RFC 5646, section 4.4.1, asks implementations to allow for."""

MAX_REFUSAL_CHARS = 500
"""A tool's own words about its failure."""

ClientId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-]{1,64}$")]
CorrelationId = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
Number = Annotated[float, Field(strict=True)]
"""A JSON number: neither a text that looks like one nor a boolean."""


class FrameType(StrEnum):
    """The `type` of a frame."""

    HELLO = "hello"
    SESSION_BIND = "session-bind"
    REGISTER = "client-tool-register"
    UNREGISTER = "client-tool-unregister"
    PROGRESS = "client-tool-progress"
    RESULT = "client-tool-result"
    LATE_RESULT = "client-tool-late-result"
    STATE = "client-state"
    PING = "ping"

    INVOKE = "client-tool-invoke"
    CANCEL = "client-tool-cancel"
    ERROR = "error"
    ACK = "ack"
    PONG = "pong"


class Envelope(WireModel):
    """Every frame."""

    type: Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
    id: Annotated[str, Field(max_length=MAX_ID_CHARS)] | Annotated[int, Field(strict=True, ge=0, lt=2**53)] | None = (
        None
    )
    reply_to: str | int | None = None
    data: dict[str, Any] | None = None


# --- client to bridge -----------------------------------------------------------------------------------------------


class ClientStateData(WireModel):
    """`client-state`: hints for the order in which clients are asked; the outcome is the truth."""

    visibility: Literal["visible", "hidden"] | None = None
    focused: bool | None = None
    permission: Literal["granted", "denied", "prompt", "unknown"] | None = None
    sharing: Literal["on", "off"] | None = Field(default=None, description="the person's choice in the page")
    precision: Precision | None = Field(default=None, description="the person's choice in the page")


class HelloData(ClientStateData):
    """`hello`: the first frame, within 5 s. Answered with ack or close 4003."""

    token: Annotated[str, Field(min_length=1, max_length=MAX_TOKEN_CHARS)]
    client_id: ClientId = Field(description="names the tab; kept in its sessionStorage")
    resume: Annotated[str, Field(max_length=MAX_SECRET_CHARS)] | None = Field(
        default=None, description="the secret of the tab's earlier socket, whose open asks it takes over"
    )
    page: str | None = Field(default=None, description="the page's title, as it calls itself")
    time_zone: str | None = None
    languages: Annotated[list[str], Field(max_length=200)] = []


class SessionBindData(WireModel):
    """`session-bind`: binds, switches sessions, and refreshes a token that will expire."""

    session_id: Annotated[str, Field(min_length=1, max_length=128)]
    token: Annotated[str, Field(min_length=1, max_length=MAX_TOKEN_CHARS)] | None = None


class ToolSpec(WireModel):
    """A tool as a page registers it. Of the optional fields of earlier clients only those below are kept."""

    name: ToolName
    description: Annotated[str, Field(max_length=MAX_DESCRIPTION_CHARS)] = ""
    params_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None


class RegisterData(WireModel):
    """`client-tool-register`: adds tools, or replaces those of the same name."""

    tools: Annotated[list[ToolSpec], Field(min_length=1, max_length=MAX_TOOLS_PER_CLIENT)]


class UnregisterData(WireModel):
    """`client-tool-unregister`."""

    names: Annotated[list[ToolName], Field(max_length=MAX_TOOLS_PER_CLIENT)]


class ProgressData(WireModel):
    """`client-tool-progress`: sent before the browser is asked, so that a silent client is not a mystery."""

    correlation_id: CorrelationId
    state: ClientState
    prompt: Annotated[str, Field(max_length=4 * MAX_LABEL_CHARS)] | None = None


class Phase(WireModel):
    """One phase on the page's monotonic clock, milliseconds from the receipt of the invoke."""

    name: str
    start_ms: Number
    end_ms: Number


class Timings(WireModel):
    """Where the page's time went."""

    clock_ms: Number | None = Field(default=None, description="the page's wall clock now, milliseconds since the epoch")
    phases: Annotated[list[Phase], Field(max_length=16)] = []


def _or_none(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    try:
        return validate(value)
    except ValidationError:
        return None


class ResultData(WireModel):
    """`client-tool-result`. Acknowledged with `{accepted}`, or `{ignored: true}` when late, unknown or not yours."""

    correlation_id: CorrelationId
    result: Any = None
    error: str | dict[str, Any] | None = Field(default=None, description="a text, or an object with `message`")
    timings: Annotated[Timings | None, WrapValidator(_or_none)] = Field(
        default=None, description="a help for the trace: malformed ones are left out, not refused"
    )


class LateResultData(WireModel):
    """`client-tool-late-result`: what the person decided after PENDING had been answered. Never a position."""

    correlation_id: CorrelationId
    status: Status


class PingData(WireModel):
    """`ping`."""

    t: Number | None = None


# --- what `client-tool-result` carries for location_get -------------------------------------------------------------


class LocationGranted(WireModel):
    """A position. Numbers that are not finite get as far as here, to be answered as what they are: implausible."""

    model_config = ConfigDict(allow_inf_nan=True)

    status: Literal[Status.GRANTED]
    latitude: Annotated[Degrees, Field(strict=True)]
    longitude: Annotated[Degrees, Field(strict=True)]
    accuracy: Annotated[Metres, Field(strict=True, description="metres, 95 % radius")]
    timestamp: Number = Field(description="of the fix, milliseconds since the epoch")
    age_ms: Number = Field(description="of the fix at sending, milliseconds on the page's own clock")
    precision: Precision
    altitude: Number | None = None
    altitude_accuracy: Number | None = None
    speed: Number | None = None
    heading: Number | None = None

    def __repr__(self) -> str:
        return "LocationGranted(…)"

    __str__ = __repr__


class LocationDeclined(WireModel):
    """The person said no, or had said no before."""

    status: Literal[Status.DECLINED]
    reason: Literal[Reason.DENIED, Reason.DISMISSED, Reason.SHARING_OFF]


class LocationPending(WireModel):
    """Not decided, not found or not shown yet."""

    status: Literal[Status.PENDING]
    reason: Literal[Reason.PROMPT_OPEN, Reason.ACQUIRING, Reason.TAB_HIDDEN]


class LocationUnavailable(WireModel):
    """The page cannot tell. `would_prompt`: only a prompt could answer, and the ask forbade it."""

    status: Literal[Status.UNAVAILABLE]
    reason: (
        Literal[
            Reason.INSECURE_CONTEXT,
            Reason.UNSUPPORTED,
            Reason.PERMISSIONS_POLICY,
            Reason.POSITION_UNAVAILABLE,
            Reason.TIMEOUT,
            Reason.STALE,
            Reason.CANCELLED,
        ]
        | Literal["would_prompt"]
    )


LocationResult = Annotated[
    LocationGranted | LocationDeclined | LocationPending | LocationUnavailable, Field(discriminator="status")
]

# --- bridge to client -----------------------------------------------------------------------------------------------


class SocketLimits(WireModel):
    """What the bridge accepts."""

    max_frame_bytes: int
    max_result_bytes: int
    max_tools: int


class HelloAck(WireModel):
    """The ack of `hello`."""

    connection_id: str
    resume: str = Field(description="shown by the next socket of this tab to take over what is open")
    server_time_ms: EpochMs
    limits: SocketLimits


class BindAck(WireModel):
    """The ack of `session-bind`."""

    mode: Literal["live"] = "live"


class ResultAck(WireModel):
    """The ack of `client-tool-result`: one of the two."""

    accepted: Literal[True] | None = None
    ignored: Literal[True] | None = None


class InvokeData(WireModel):
    """`client-tool-invoke`."""

    correlation_id: str
    name: str
    params: dict[str, Any]
    budget_ms: Milliseconds = Field(description="what is left for this client, which answers inside it, always")
    may_prompt: bool = Field(description="false: answer only from a grant that exists already")
    wait: Literal["no", "user"]
    wait_ms: Milliseconds = Field(description="how long the budget may stand still while the person decides")
    purpose: str | None = None
    traceparent: str


class CancelData(WireModel):
    """`client-tool-cancel`."""

    correlation_id: str
    reason: str


class ErrorData(WireModel):
    """`error`: a reply when `replyTo` is set."""

    error_code: int
    error_message: str
    reason: str | None = None


class PongData(WireModel):
    """`pong`."""

    t: float | None
    server_time_ms: EpochMs
