"""What a log line shows, and what it never shows."""

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from hereabouts.runtime import logs
from hereabouts.runtime.settings import ServiceSettings


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:], root.level = handlers, level


def configured(log_format: str = "json") -> None:
    logs.configure(ServiceSettings(log_format=log_format), "sample")  # type: ignore[arg-type]


def test_our_lines_and_the_librarys_are_json_with_the_service(capsys: pytest.CaptureFixture[str]) -> None:
    configured()
    logs.get_logger("here").info("settled", correlation_id="c", status="GRANTED")
    logging.getLogger("there").warning("odd %s", "thing")
    ours, theirs = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (ours["event"], ours["service"], ours["logger"], ours["correlation_id"]) == (
        "settled",
        "sample",
        "here",
        "c",
    )
    assert (theirs["event"], theirs["level"], theirs["logger"]) == ("odd thing", "warning", "there")
    assert ours["timestamp"].endswith("Z")


def test_positions_and_credentials_are_dropped_however_deep(capsys: pytest.CaptureFixture[str]) -> None:
    configured()
    logs.get_logger("here").info(
        "x", latitude=52.52, Authorization="Bearer y", ask={"params": {"a": 1}, "tool": "t", "fixes": [{"lon": 13.4}]}
    )
    line = json.loads(capsys.readouterr().err)
    assert line["ask"] == {"tool": "t", "fixes": [{}]}
    assert not {"latitude", "Authorization"} & line.keys()


def test_credentials_in_others_text_are_blanked(capsys: pytest.CaptureFixture[str]) -> None:
    configured()
    key = "hb_" + "k" * 43
    try:
        raise ValueError(f"bad key {key} for redis://user:swordfish@host/0")
    except ValueError:
        logging.getLogger("there").exception("failed with %s", key)
    text = capsys.readouterr().err
    assert key not in text
    assert "swordfish" not in text
    assert "ValueError: bad key …" in json.loads(text)["exception"]


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_traceback_shows_no_local_variables(capsys: pytest.CaptureFixture[str], log_format: str) -> None:
    configured(log_format)
    try:
        latitude = 52.520008
        raise ValueError("not below" if latitude > 0 else "")
    except ValueError:
        logs.get_logger("here").exception("failed")
        logging.getLogger("there").exception("failed")
    text = capsys.readouterr().err
    assert text.count("not below") >= 2
    assert "52.520008" not in text


def test_requests_are_not_logged_by_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    configured()
    logging.getLogger("uvicorn.access").info('127.0.0.1 - "GET /v1/invocations/x" 200')
    logging.getLogger("httpx").info("HTTP Request: GET http://x/?token=1")
    assert capsys.readouterr().err == ""
