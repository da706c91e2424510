"""The generated documents are fresh and valid."""

import json
from pathlib import Path

import jsonschema_rs
import pytest

from hereabouts.schemas.answers import refused
from hereabouts.schemas.generate import asyncapi, documents, main, stale
from hereabouts.schemas.outcomes import Reason

GENERATED = Path(__file__).parents[2] / "schemas" / "generated"


def test_the_checked_in_files_are_fresh() -> None:
    assert stale(GENERATED) == []


@pytest.mark.parametrize("name", sorted(name for name in documents() if name.startswith("json/")))
def test_each_file_is_a_valid_schema(name: str) -> None:
    jsonschema_rs.meta.validate(json.loads(documents()[name]))


def test_the_answer_schema_tells_an_answer_from_another_document() -> None:
    validator = jsonschema_rs.Draft202012Validator(json.loads(documents()["json/LocationAnswer.json"]))
    answer = refused(
        Reason.DENIED, correlation_id="c", trace_id="t", elapsed_ms=1, budget_ms=5000, dispatched=False
    ).model_dump(mode="json")
    assert validator.is_valid(answer)
    assert not validator.is_valid(answer | {"status": "PERHAPS"})


def test_asyncapi_names_templates_and_resolves() -> None:
    document = asyncapi()
    text = json.dumps(document)
    for reference in {part.split('"')[0] for part in text.split('"$ref": "#/')[1:]}:
        node = document
        for step in reference.split("/"):
            node = node[step]
    assert all("<" in channel["title"] for channel in document["channels"].values())


def test_check_says_what_is_not_fresh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", str(tmp_path)]) == 1
    assert "make generate" in capsys.readouterr().err
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0
    (tmp_path / "json" / "Old.json").write_text("{}")
    assert main(["--check", str(tmp_path)]) == 1
