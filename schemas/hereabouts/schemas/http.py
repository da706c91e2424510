"""Requests and responses of the brain's HTTP API."""

from typing import Any, Literal

from pydantic import Field

from .base import EpochMs, Milliseconds, Model, StrictModel
from .bus_messages import JournalEntry
from .limits import MAX_PURPOSE_CHARS
from .tools import Tool, ToolName


class SessionRequest(StrictModel):
    """`POST /v1/sessions`."""

    user: str | None = Field(
        default=None,
        min_length=1,
        max_length=128,
        pattern=r"^[A-Za-z0-9_.:@\-]+$",
        description="the user whose devices may answer too",
    )


class SessionCreated(Model):
    """A session with its tokens. Each token is shown once."""

    session_id: str
    user: str | None
    client_token: str = Field(description="for the page: it may register tools and answer")
    agent_token: str = Field(description="for the agent: it may invoke the session's tools")
    socket_url: str = Field(description="the bridge's WebSocket address")
    page_url: str = Field(description="the hosted chat page, with a one-time code in its fragment")
    expires_at_ms: EpochMs


class ClientSeen(Model):
    """A live client of a session, without its own words."""

    kind: Literal["tab", "node"]
    client_id: str
    since_ms: EpochMs
    tools: list[str]
    visibility: Literal["visible", "hidden"]
    focused: bool
    permission: Literal["granted", "denied", "prompt", "unknown"]


class SessionView(Model):
    """`GET /v1/sessions/{id}`."""

    session_id: str
    user: str | None
    created_at_ms: EpochMs
    expires_at_ms: EpochMs
    clients: list[ClientSeen]


class SessionTools(Model):
    """`GET /v1/sessions/{id}/tools`: what its clients registered, each name once. Descriptions are client-made."""

    tools: list[Tool]


class InvocationRequest(StrictModel):
    """`POST /v1/sessions/{id}/invocations`."""

    tool: ToolName
    arguments: dict[str, Any] = {}
    timeout_ms: float | None = Field(
        default=None, description="wished budget in milliseconds; capped at the tool's and the tenant's limit"
    )
    purpose: str | None = Field(
        default=None, max_length=MAX_PURPOSE_CHARS, description="why, in words that the user reads"
    )
    route: str = Field(
        default="best", max_length=128, pattern=r"^[A-Za-z0-9_.:\-]+$", description="best, all, or a client_id"
    )


class InvocationView(Model):
    """`GET /v1/invocations/{correlation_id}`: where a call stands, from the journal alone."""

    correlation_id: str
    state: Literal["open", "settled"]
    tool: str | None
    status: str | None
    reason: str | None
    trace_id: str | None
    started_at_ms: EpochMs | None
    elapsed_ms: Milliseconds | None
    budget_ms: Milliseconds | None
    timeline: list[JournalEntry]


class ToolList(Model):
    """`GET /v1/tools`: the tools that Hereabouts defines."""

    tools: list[Tool]
