"""Which models cross which border: the source of the generated JSON Schema files and of the AsyncAPI document."""

from typing import Any, NamedTuple

from . import bus_messages, http, records
from .answers import LOCATION_ANSWER, ToolAnswer
from .claims import Claims
from .errors import ErrorBody
from .tools import LocationArguments, Tool

ADAPTERS = {"LocationAnswer": LOCATION_ANSWER}

PUBLISHED: dict[str, type[Any]] = {
    model.__name__: model
    for model in (
        ToolAnswer,
        LocationArguments,
        Tool,
        ErrorBody,
        Claims,
        http.SessionRequest,
        http.SessionCreated,
        http.SessionView,
        http.SessionTools,
        http.InvocationRequest,
        http.InvocationView,
        http.ToolList,
        bus_messages.Ask,
        bus_messages.Cancel,
        bus_messages.ClientResult,
        bus_messages.Progress,
        bus_messages.JournalEntry,
        records.TenantRecord,
        records.SessionRecord,
        records.ClientRecord,
        records.PairingRecord,
    )
}


class Channel(NamedTuple):
    """One stream or socket of the AsyncAPI document."""

    name: str
    address: str
    description: str
    messages: tuple[str, ...]
    sender: str


CHANNELS = (
    Channel("edgeInbox", "edge:{i:<instance>}", "A brain asks and cancels.", ("Ask", "Cancel"), "brain"),
    Channel(
        "brainInbox",
        "brain:{i:<instance>}",
        "An edge answers. Bodies of results are sealed (AES-GCM).",
        ("ClientResult", "Progress"),
        "edge",
    ),
    Channel(
        "journal",
        "journal:{j:<partition>}",
        "Each call's story, partitioned by correlation id, kept ten minutes; no positions.",
        ("JournalEntry",),
        "brain and edges",
    ),
)
