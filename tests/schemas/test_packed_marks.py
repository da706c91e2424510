"""A mark and a journal line that travel packed come out as what went in."""

import json

import pytest
from pydantic import ValidationError

from hereabouts.schemas.bus_messages import ClientResult, JournalEntry, JournalKind, JournalLine
from hereabouts.schemas.ids import new_correlation_id, new_span_id
from hereabouts.schemas.marks import Mark, PackedMark, Service, SpanKind, unpack
from hereabouts.schemas.outcomes import Status

CALL = new_correlation_id()
PACKED = PackedMark(
    new_span_id(), None, "send edge.inbox", Service.BRAIN, SpanKind.PRODUCER, 1, 2, {"hereabouts.asked": 1}, "timeout"
)
EARLIER = {"kind": "delivered", "correlation_id": CALL, "tenant": "acme", "at_ms": 1, "by": "browser-bridge"}


def test_a_packed_mark_has_the_fields_of_a_mark() -> None:
    assert PackedMark._fields == tuple(Mark.model_fields)
    assert unpack(PACKED).model_dump() == PACKED._asdict()


def test_marks_and_lines_survive_a_result() -> None:
    sent = ClientResult(
        connection="c",
        client_id="tab",
        epoch=1,
        status=Status.DECLINED,
        received_at_ms=1,
        packed_marks=[PACKED],
        packed_journal=[EARLIER],
    )
    body = sent.model_dump_json(exclude_defaults=True)
    assert isinstance(json.loads(body)["packed_marks"][0], list)
    read = ClientResult.model_validate_json(body)
    assert read.marks == [unpack(PACKED)]
    assert read.journal == [JournalEntry.model_validate(EARLIER)]


def test_a_settled_line_unpacks_to_an_entry_as_the_api_shows_it() -> None:
    line = JournalLine(
        kind=JournalKind.SETTLED,
        correlation_id=CALL,
        tenant="acme",
        at_ms=2,
        by="brain",
        packed_marks=[PACKED],
        packed_earlier=[EARLIER],
    )
    entry = JournalLine.model_validate_json(line.model_dump_json(exclude_defaults=True)).entry()
    assert type(entry) is JournalEntry
    assert entry.marks == [unpack(PACKED)]
    assert entry.earlier == [JournalEntry.model_validate(EARLIER)]


def test_a_mark_of_no_service_of_ours_is_refused() -> None:
    with pytest.raises(ValidationError):
        ClientResult.model_validate(
            {
                "connection": "c",
                "client_id": "tab",
                "epoch": 1,
                "status": "DECLINED",
                "received_at_ms": 1,
                "packed_marks": [["a", None, "b", "stranger", "client", 1, 2, {}, None]],
            }
        )
