"""Status, reason, retry and the text for the agent: one table, and everything else reads it."""

from enum import StrEnum
from typing import NamedTuple


class Status(StrEnum):
    """How a call ended. Always a result, never an error."""

    GRANTED = "GRANTED"
    DECLINED = "DECLINED"
    PENDING = "PENDING"
    UNAVAILABLE = "UNAVAILABLE"


class Retry(StrEnum):
    """Whether the agent may call again."""

    NEVER = "never"
    AFTER_WAIT = "after_wait"


class Reason(StrEnum):
    """Why a call was not GRANTED. A closed list: clients' own words never stand here."""

    DENIED = "denied"
    DISMISSED = "dismissed"
    SHARING_OFF = "sharing_off"
    LOCATION_DISABLED = "location_disabled"
    PERMISSION_REQUIRED = "permission_required"
    NOT_NAGGED = "not_nagged"
    POLICY = "policy"

    PROMPT_OPEN = "prompt_open"
    ACQUIRING = "acquiring"
    TAB_HIDDEN = "tab_hidden"
    OPEN_THE_APP = "open_the_app"
    NODE_ASLEEP = "node_asleep"
    NOT_READY = "not_ready"
    EDGE_LOST = "edge_lost"
    BUS_LOST = "bus_lost"

    NO_CLIENT = "no_client"
    UNSUPPORTED = "unsupported"
    INSECURE_CONTEXT = "insecure_context"
    PERMISSIONS_POLICY = "permissions_policy"
    POSITION_UNAVAILABLE = "position_unavailable"
    TIMEOUT = "timeout"
    STALE = "stale"
    IMPLAUSIBLE = "implausible"
    CLIENT_SILENT = "client_silent"
    CLIENT_ERROR = "client_error"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"


WOULD_PROMPT = "would_prompt"
"""What a client says to `mayPrompt:false` when only a prompt could answer. Between client and brain; never in an answer."""


class Outcome(NamedTuple):
    """One row of the table."""

    status: Status
    retry: Retry
    message: str


_DO_NOT_RETRY = "Do not retry."
_MAY_RETRY = "You may call again after a short wait, or go on without the location."

GRANTED_MESSAGE = "The user's location. The accuracy is a radius in metres, not a point: do not report more precision."

OUTCOMES: dict[Reason, Outcome] = {
    **{
        reason: Outcome(Status.DECLINED, Retry.NEVER, f"{said} {_DO_NOT_RETRY}")
        for reason, said in {
            Reason.DENIED: "The user does not allow access to their location.",
            Reason.DISMISSED: "The user was asked and closed the request without allowing it.",
            Reason.SHARING_OFF: "The user has switched location sharing off.",
            Reason.LOCATION_DISABLED: "Location sharing is switched off on the user's device.",
            Reason.PERMISSION_REQUIRED: "The user's device has not been given permission to use its location.",
            Reason.NOT_NAGGED: "The user refused before and is not asked again.",
            Reason.POLICY: "Policy does not allow this request.",
        }.items()
    },
    **{
        reason: Outcome(Status.PENDING, Retry.AFTER_WAIT, f"{said} {_MAY_RETRY}")
        for reason, said in {
            Reason.PROMPT_OPEN: "The user has been asked and has not answered yet.",
            Reason.ACQUIRING: "The user allows it, and the device is still finding its position.",
            Reason.TAB_HIDDEN: "The page that can answer is in the background; it answers when the user returns to it.",
            Reason.OPEN_THE_APP: "The device can answer once the user opens the app on it.",
            Reason.NODE_ASLEEP: "The user's device is asleep and has been asked to wake up.",
            Reason.NOT_READY: "The user's page or device is reconnecting.",
            Reason.EDGE_LOST: "The connection to the user's page or device was lost and is coming back.",
            Reason.BUS_LOST: "The service lost its connection inside and is recovering.",
        }.items()
    },
    **{
        reason: Outcome(Status.UNAVAILABLE, Retry.NEVER, f"{said} {_DO_NOT_RETRY}")
        for reason, said in {
            Reason.NO_CLIENT: "No page or device of the user that can tell a location is connected.",
            Reason.UNSUPPORTED: "The user's browser or device cannot tell its location.",
            Reason.INSECURE_CONTEXT: "The user's page is not served securely, so the browser refuses to tell a location.",
            Reason.PERMISSIONS_POLICY: "The page's own permissions policy forbids the use of location.",
            Reason.POSITION_UNAVAILABLE: "The device could not find its position.",
            Reason.TIMEOUT: "The device did not find its position in time.",
            Reason.STALE: "Only a position older than wanted was to be had.",
            Reason.IMPLAUSIBLE: "The device sent a position that cannot be true.",
            Reason.CLIENT_SILENT: "The user's page or device did not answer in time.",
            Reason.CLIENT_ERROR: "The user's page or device failed to answer.",
            Reason.CANCELLED: "The call was cancelled.",
            Reason.DEADLINE: "The call reached its last deadline.",
        }.items()
    },
}


def reasons_of(status: Status) -> tuple[Reason, ...]:
    """The reasons that a status can have, in the table's order."""
    return tuple(reason for reason, outcome in OUTCOMES.items() if outcome.status is status)
