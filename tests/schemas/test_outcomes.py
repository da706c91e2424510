"""The table of reasons is the one source: everything else must agree with it."""

import json

import pytest
from pydantic import ValidationError

from hereabouts.schemas.answers import LOCATION_ANSWER, Granted, granted, refused
from hereabouts.schemas.outcomes import OUTCOMES, Reason, Retry, Status, reasons_of

COMMON = {
    "correlation_id": "01900000-0000-7000-8000-000000000000",
    "trace_id": "0" * 31 + "1",
    "elapsed_ms": 12,
    "budget_ms": 5000,
    "dispatched": True,
}


def test_every_reason_has_exactly_one_row() -> None:
    assert set(OUTCOMES) == set(Reason)
    assert sum(len(reasons_of(status)) for status in Status) == len(Reason)


def test_only_pending_may_be_called_again() -> None:
    for outcome in OUTCOMES.values():
        assert (outcome.retry is Retry.AFTER_WAIT) == (outcome.status is Status.PENDING)
        assert ("Do not retry." in outcome.message) == (outcome.status is not Status.PENDING)


@pytest.mark.parametrize("reason", Reason)
def test_a_refusal_survives_the_wire(reason: Reason) -> None:
    answer = refused(reason, **COMMON)
    again = LOCATION_ANSWER.validate_json(answer.model_dump_json())
    assert again == answer
    assert again.status is OUTCOMES[reason].status


def test_a_reason_of_another_status_is_refused() -> None:
    document = json.loads(refused(Reason.DENIED, **COMMON).model_dump_json()) | {"status": "PENDING"}
    with pytest.raises(ValidationError):
        LOCATION_ANSWER.validate_python(document)


def position(**changes: object) -> Granted:
    fields: dict[str, object] = {
        "latitude": 52.520008,
        "longitude": 13.404954,
        "accuracy": 12.5,
        "timestamp": "2026-11-30T12:00:00.000Z",
        "received_at": "2026-11-30T12:00:00.100Z",
        "precision": "precise",
        "source": "gps",
    }
    return granted(**(COMMON | fields | changes))


def test_a_position_shows_in_the_document_and_never_in_a_repr() -> None:
    answer = position()
    assert json.loads(answer.model_dump_json())["latitude"] == 52.520008
    assert "52.5" not in repr(answer)
    assert "52.5" not in str(answer)


@pytest.mark.parametrize("changes", [{"latitude": 91.5208}, {"longitude": float("nan")}, {"accuracy": -91.5208}])
def test_an_impossible_position_is_refused_without_telling_it(changes: dict[str, float]) -> None:
    with pytest.raises(ValidationError) as caught:
        position(**changes)
    assert "91.5208" not in str(caught.value)
    assert "input_value" not in str(caught.value)
