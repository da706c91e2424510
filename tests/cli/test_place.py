"""What `up` leaves in its folder, ports, restarts, and the live line."""

import json
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hereabouts.cli.ask import Line, waits_for
from hereabouts.cli.backoff import LONGEST_S, STEADY_S, Backoff
from hereabouts.cli.local import PortBusy, choose_ports
from hereabouts.cli.place import NotRunning, Place, RunsAlready, State
from hereabouts.runtime.deployment import SERVICES
from hereabouts.schemas.http import ClientSeen

STATE = State(pid=1, brain_url="http://b", browser_url="http://w", node_url="http://n")


def test_other_commands_find_a_running_up_and_only_while_it_runs(tmp_path: Path) -> None:
    place = Place(tmp_path / "new")
    with pytest.raises(NotRunning, match="hereabouts up"):
        place.state()
    with place.held():
        place.write_state(STATE)
        # flock is by open file, so another place in this process is as good as another process
        assert Place(place.data_dir).state() == STATE
        with pytest.raises(RunsAlready, match="brain at http://b"), Place(place.data_dir).held():
            pass
    with pytest.raises(NotRunning):
        place.state()


def test_what_a_killed_up_left_behind_counts_for_nothing(tmp_path: Path) -> None:
    script = (
        "import os,sys; from pathlib import Path; from hereabouts.cli.place import *\n"
        "p = Place(Path(sys.argv[1])); h = p.held(); h.__enter__()\n"
        "p.write_state(State(pid=1, brain_url='b', browser_url='w', node_url='n')); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == 9
    assert json.loads((tmp_path / "state.json").read_text())["pid"] == 1
    with pytest.raises(NotRunning):
        Place(tmp_path).state()
    with Place(tmp_path).held():
        pass


def test_the_dev_key_is_made_once_and_private(tmp_path: Path) -> None:
    place = Place(tmp_path)
    key = place.dev_key()
    assert key.startswith("hb_")
    assert Place(tmp_path).dev_key() == key
    assert stat.S_IMODE((tmp_path / "dev-key").stat().st_mode) == 0o600


def test_a_busy_usual_port_is_said_and_moved_and_a_named_one_is_an_error() -> None:
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortBusy, match=str(port)):
            choose_ports("127.0.0.1", {"brain": port}, said.append)
    assert said == []
    held = []
    try:
        for spec in SERVICES:
            try:
                held.append(socket.create_server(("127.0.0.1", spec.default_port)))
            except OSError:
                pass  # somebody else holds it: as good
        ports = choose_ports("127.0.0.1", {}, said.append)
    finally:
        for listener in held:
            listener.close()
    assert len(said) == 3
    assert not set(ports.values()) & {spec.default_port for spec in SERVICES}


def test_a_service_that_keeps_crashing_is_started_ever_more_slowly() -> None:
    backoff = Backoff()
    pauses = [backoff.after_crash(lived_s=0.1) for _ in range(8)]
    assert pauses[:3] == [0.5, 1.0, 2.0]
    assert pauses[-1] == LONGEST_S
    assert backoff.after_crash(lived_s=STEADY_S) == 0.5


def seen(
    kind: str, permission: str = "prompt", visibility: str = "visible", tools: list[str] | None = None
) -> ClientSeen:
    return ClientSeen.model_validate(
        {
            "kind": kind,
            "client_id": "c",
            "since_ms": 0,
            "tools": ["location_get"] if tools is None else tools,
            "visibility": visibility,
            "focused": False,
            "permission": permission,
        }
    )


@pytest.mark.parametrize(
    ("clients", "words"),
    [
        ([], "no page or device is connected"),
        ([seen("tab", tools=[])], "no page or device is connected"),
        ([seen("node"), seen("node")], "2 devices asked"),
        ([seen("tab")], "the person decides in their page"),
        ([seen("tab", visibility="hidden")], "the page is in the background"),
        ([seen("tab", "granted"), seen("tab")], "the page has permission"),
        ([seen("tab", "denied"), seen("node")], "1 device asked, the page's permission is denied"),
    ],
)
def test_the_live_line_says_what_the_call_waits_for(clients: list[ClientSeen], words: str) -> None:
    assert waits_for(clients) == words
    line = Line(5_000)
    line.state = words
    assert words in line.__rich__().plain


def test_the_live_line_never_goes_below_zero() -> None:
    assert "time is up" in Line(0).__rich__().plain
