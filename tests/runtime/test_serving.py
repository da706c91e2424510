"""A service process from start to end, over real sockets and signals."""

import json
import os
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from hereabouts.runtime.deployment import free_port, unready, wait_healthy
from hereabouts.runtime.processes import Process, ProcessFailed, ready_port
from hereabouts.runtime.serving import EXIT_FORCED, EXIT_PORT_BUSY, EXIT_STARTUP

StartSample = Callable[..., Process]


def words(story: Path) -> list[str]:
    return story.read_text().split() if story.exists() else []


def until(story: Path, word: str) -> None:
    """Wait for a word in the story; the test's own timeout ends it otherwise."""
    pause = threading.Event()
    while word not in words(story):
        pause.wait(0.01)


def test_a_free_port_is_taken_and_told_and_health_is_served(sample: StartSample) -> None:
    process = sample()
    url = f"http://127.0.0.1:{process.port}"
    assert unready(url) is None
    with urllib.request.urlopen(f"{url}/metrics") as response:
        assert b"python_info" in response.read()
        assert "server" not in response.headers


def test_readyz_says_the_causes(sample: StartSample) -> None:
    process = sample(CAUSE="the lease has lapsed")
    url = f"http://127.0.0.1:{process.port}"
    assert wait_healthy(url, 0) == "bus: the lease has lapsed"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{url}/readyz")
    assert refused.value.code == 503
    assert json.load(refused.value)["causes"] == {"bus": "the lease has lapsed"}
    refused.value.close()
    with urllib.request.urlopen(f"{url}/livez") as response:
        assert response.status == 200


def test_the_ready_line_can_go_to_a_file(sample: StartSample, tmp_path: Path, story: Path) -> None:
    file = tmp_path / "ready.json"
    process = sample(ready=False, HEREABOUTS_READY_FILE=str(file))
    pause = threading.Event()
    while not file.exists():
        pause.wait(0.01)
    port = ready_port(file.read_bytes())
    assert port is not None
    assert unready(f"http://127.0.0.1:{port}") is None
    assert process.port is None


def test_sigterm_drains_while_requests_are_open_and_exits_0(sample: StartSample, story: Path) -> None:
    process = sample()
    answers: list[bytes] = []

    def ask() -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{process.port}/slow") as response:
            answers.append(response.read())

    asking = threading.Thread(target=ask)
    asking.start()
    until(story, "request")
    process.terminate()
    asking.join()
    assert answers == [b"done"]
    assert process.wait(30) == 0
    assert words(story) == ["started", "request", "draining", "stopped"]


def test_a_second_signal_does_not_wait_for_the_drain(sample: StartSample, story: Path) -> None:
    process = sample(HANG="drain")
    process.terminate()
    until(story, "draining")
    process.terminate()
    assert process.wait(30) == EXIT_FORCED


def test_a_start_that_hangs_ends_at_the_second_signal(sample: StartSample, story: Path) -> None:
    process = sample(ready=False, HANG="start")
    until(story, "hanging")
    process.terminate()
    process.terminate()
    pause = threading.Event()
    while process.running:  # two signals of one number may arrive as one
        process.terminate()
        pause.wait(0.05)
    assert process.code == EXIT_FORCED


def test_a_lifespan_that_fails_is_an_exit_code_and_a_log(sample: StartSample) -> None:
    process = sample(ready=False, FAIL="start")
    with pytest.raises(ProcessFailed, match="ended with code 3 before it was ready") as failed:
        process.wait_ready(30)
    assert "no bus here" in str(failed.value)
    assert process.wait(30) == EXIT_STARTUP


def test_a_busy_port_is_said_clearly(sample: StartSample) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = sample(ready=False, HEREABOUTS_PORT=str(port))
        assert process.wait(30) == EXIT_PORT_BUSY
        assert f"cannot listen on 127.0.0.1:{port}" in process.log_tail()
        assert free_port("127.0.0.1", port) != port


def test_a_service_ends_gracefully_when_its_supervisor_is_gone(sample: StartSample, story: Path) -> None:
    process = sample()
    lose_supervisor(process)
    assert process.wait(30) == 0
    assert words(story) == ["started", "draining", "stopped"]


def lose_supervisor(process: Process) -> None:
    """What the kernel does when a supervisor dies."""
    assert process._lifeline is not None
    os.close(process._lifeline)
    process._lifeline = None
