"""The commands as a person runs them: real processes, a private data folder."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import psutil
import pytest

from hereabouts.client import Granted, SyncHereabouts
from hereabouts.runtime.settings import socket_url
from hereabouts.testing.stack import Stack

FREE_PORTS = ("--brain-port", "0", "--browser-port", "0", "--node-port", "0")

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `hereabouts …` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "hereabouts.cli", *arguments],
        capture_output=True,
        text=True,
        env=clean(**environment),
        timeout=120,
        check=False,
    )


def clean(**environment: str) -> dict[str, str]:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("HEREABOUTS_")}
    return outside | {"COLUMNS": "120", "NO_COLOR": "1"} | environment


def lives(pid: int) -> bool:
    """Whether a process is there and no zombie (a daemon's parent is init, which may take its time)."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def of_folder(data_dir: Path) -> list[psutil.Process]:
    """Living processes that work in a data folder."""
    return [one for one in psutil.process_iter(["cwd"]) if one.info["cwd"] == str(data_dir) and lives(one.pid)]


class Up:
    """A running `hereabouts up`, its output read as it comes."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "hereabouts.cli", "up", "--data-dir", str(data_dir), *FREE_PORTS],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=clean(),
        )
        self.lines: list[str] = []
        self._changed = threading.Condition()
        assert self.popen.stdout is not None
        self._thread = threading.Thread(target=self._read, args=(self.popen.stdout,), daemon=True)
        self._thread.start()

    def said(self, pattern: str, count: int = 1, timeout_s: float = 90) -> re.Match[str]:
        """Wait until so many lines match."""

        def matches() -> list[re.Match[str]]:
            return [found for line in self.lines if (found := re.search(pattern, line))]

        with self._changed:
            assert self._changed.wait_for(lambda: len(matches()) >= count, timeout_s), "\n".join(self.lines)
            return matches()[count - 1]

    def services(self) -> list[psutil.Process]:
        return [child for child in psutil.Process(self.popen.pid).children() if "-m" in child.cmdline()]

    def service(self, module: str) -> psutil.Process:
        (found,) = [child for child in self.services() if module in child.cmdline()]
        return found

    def end(self) -> int:
        self.popen.send_signal(signal.SIGTERM)
        code = self.popen.wait(60)
        self._thread.join(10)
        return code

    def _read(self, output: IO[str]) -> None:
        with output:
            for line in output:
                with self._changed:
                    self.lines.append(line.rstrip())
                    self._changed.notify_all()


@pytest.fixture
def start_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], Up]]:
    from hereabouts.bus import server

    running: list[Up] = []

    def start(data_dir: Path) -> Up:
        up = Up(data_dir)
        running.append(up)
        return up

    yield start
    for up in running:
        if up.popen.poll() is None:
            up.end()
        server.stop(up.data_dir)


def test_up_serves_restarts_what_crashes_and_ends_all(start_up: Callable[[Path], Up], tmp_path: Path) -> None:
    up = start_up(tmp_path)
    key = up.said(r"API key\s+(hb_\S+)")[1]
    services = up.services()
    assert len(services) == 3
    server_pid = int((tmp_path / "server.pid").read_text())

    made = command("session", "new", "--user", "u_1", "--json", "--data-dir", str(tmp_path))
    assert made.returncode == 0, made.stderr
    asked = command("ask", "--json", "--data-dir", str(tmp_path))
    assert asked.returncode == 2, asked.stderr
    answer = json.loads(asked.stdout)
    assert answer["reason"] == "no_client"
    traced = command("trace", answer["correlation_id"], "--data-dir", str(tmp_path))
    assert traced.returncode == 0, traced.stderr
    assert "execute_tool location_get" in traced.stdout
    assert "settled UNAVAILABLE no_client" in traced.stdout

    second = command("up", "--data-dir", str(tmp_path))
    assert second.returncode == 1
    assert "runs already" in second.stderr

    up.service("hereabouts.browser_bridge").kill()
    up.said(r"browser-bridge ended with code -9")
    up.said(r"browser-bridge ready", count=2)

    services = up.services()
    assert up.end() == 0
    assert not any(one.is_running() for one in services)
    assert not lives(server_pid)
    assert command("ask", "--data-dir", str(tmp_path)).returncode == 1

    again = start_up(tmp_path)
    assert again.said(r"API key\s+(hb_\S+)")[1] == key
    assert command("session", "new", "--data-dir", str(tmp_path)).returncode == 0


def test_services_end_themselves_when_their_supervisor_was_killed(
    start_up: Callable[[Path], Up], tmp_path: Path
) -> None:
    up = start_up(tmp_path)
    up.said("API key")
    services = up.services()
    up.popen.kill()
    up.popen.wait(30)
    _, alive = psutil.wait_procs(services, timeout=60)
    assert alive == []
    # The server lives on with its data; the next start finds it.
    again = start_up(tmp_path)
    again.said(r"server ready \(found running\)")
    again.said("API key")


def test_the_demo_ends_with_a_granted_answer_and_its_waterfall(tmp_path: Path) -> None:
    played = command("demo", "--once", "--data-dir", str(tmp_path))
    assert played.returncode == 0, played.stdout + played.stderr
    for part in (
        "GRANTED",
        "answered by a node",
        "execute_tool location_get",
        "process edge.inbox",
        "process brain.inbox",
        "settled GRANTED",
        "make run",
    ):
        assert part in played.stdout
    assert (tmp_path / "demo-device" / "node.toml").read_text().startswith("[location]")
    assert not (tmp_path / "state.json").exists()
    assert of_folder(tmp_path) == []  # the server's own working folder is its data's


def test_commands_say_what_is_wrong_in_one_sentence(hereabouts_stack: Stack, tmp_path: Path) -> None:
    there = {"HEREABOUTS_BRAIN_URL": hereabouts_stack.brain_url, "HEREABOUTS_DATA_DIR": str(tmp_path)}
    wrong_key = command("session", "new", HEREABOUTS_API_KEY="hb_" + "x" * 43, **there)
    assert wrong_key.returncode == 1
    assert "The API key is not known" in wrong_key.stderr
    right = there | {"HEREABOUTS_API_KEY": hereabouts_stack.api_key}
    unnamed = command("ask", **right)
    assert "hereabouts session new" in unnamed.stderr
    gone = command("ask", "--session", "s_gone", **right)
    assert "There is no session" in gone.stderr
    nowhere = command("ask", "--session", "s", "--url", "http://127.0.0.1:9", "--key", "hb_x")
    assert "cannot be reached" in nowhere.stderr
    for result in (wrong_key, unnamed, gone, nowhere):
        assert "Traceback" not in result.stderr


def test_a_gateway_token_is_made_only_where_a_deployments_secret_is(tmp_path: Path) -> None:
    lost = command("node", "token", "--user", "u_9", "--data-dir", str(tmp_path))
    assert lost.returncode == 1
    assert "hereabouts up" in lost.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("switch", "status"), [((), "DECLINED"), (("--enabled-mode", "always"), "GRANTED")])
def test_a_device_tells_its_place_only_when_it_was_switched_on(
    hereabouts_stack: Stack, tmp_path: Path, switch: tuple[str, ...], status: str
) -> None:
    user = f"u_{status}"
    made = command(
        *("node", "token", "--auto-approve", "--user", user, "--tenant", "test"),
        *("--data-dir", str(hereabouts_stack.data_dir)),
    )
    assert made.returncode == 0, made.stderr
    place = ("--url", socket_url(hereabouts_stack.node_url, "/"), "--state-dir", str(tmp_path))
    device = subprocess.Popen(
        [sys.executable, "-m", "hereabouts.cli", "node", "run", "--provider", "fixed:1.5,2.5,30", *switch, *place],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=clean(HEREABOUTS_NODE_TOKEN=made.stdout.strip(), XDG_CONFIG_HOME=str(tmp_path)),
    )
    assert device.stdout is not None
    with device.stdout as output:
        try:
            said: list[str] = []
            while not said or "connected" not in said[-1].split():
                said.append(next(output, None) or pytest.fail("the device ended: " + "".join(said)))
            with SyncHereabouts(hereabouts_stack.brain_url, hereabouts_stack.api_key) as client:
                session = client.create_session(user).session_id
                while not client.tools(session):  # it is registered a moment after it is let in
                    threading.Event().wait(0.02)
                answer = client.location(session)
        finally:
            device.terminate()
            code = device.wait(30)
    assert code == 0
    assert answer.status == status
    if isinstance(answer, Granted):
        assert (answer.latitude, answer.longitude, answer.accuracy) == (1.5, 2.5, 30)
    else:
        assert answer.node_code == "LOCATION_DISABLED"


def test_a_device_is_switched_on_in_one_way_only() -> None:
    both = command("node", "run", "--settings", "x.toml", "--enabled-mode", "always")
    assert both.returncode == 2
    assert "either --settings or --enabled-mode" in both.stderr
