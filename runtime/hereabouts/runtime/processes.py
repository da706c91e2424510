"""Supervisor's side of a supervised process: start it, learn its port, see it end, end it.

Blocking calls and threads, no event loop: a test's fixture and a command both use it, each with a loop of its own.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from hereabouts.schemas.errors import HereaboutsError

from .supervision import SUPERVISED_FD

LOG_TAIL_BYTES = 4_000
"""What an error quotes of a process's log: a traceback's end."""


class ProcessFailed(HereaboutsError):
    code = "process_failed"
    template = "{name} {what}. Its log, {log_file}, ends with:\n{tail}"


class Process:
    """One child process: a Python module, its log in a file, a pipe that tells it when its supervisor is gone."""

    def __init__(
        self,
        name: str,
        module: str,
        *arguments: str,
        environment: Mapping[str, str],
        log_file: Path,
        on_exit: Callable[["Process", int], None] | None = None,
    ) -> None:
        """`on_exit(process, code)` is called on a thread of the process when it ended, however it did."""
        self.name = name
        self.log_file = log_file
        self.port: int | None = None
        """The real port, once the ready line has come."""
        self._command: Sequence[str] = (sys.executable, "-m", module, *arguments)
        self._environment = dict(environment)
        self._on_exit = on_exit
        self._popen: subprocess.Popen[bytes] | None = None
        self._lifeline: int | None = None
        self._changed = threading.Event()

    def __repr__(self) -> str:
        return f"Process({self.name}, pid={self.pid}, code={self.code})"

    @property
    def pid(self) -> int | None:
        """The process id, while and after it ran."""
        return self._popen.pid if self._popen else None

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs or before it started; −9 after SIGKILL."""
        return self._popen.poll() if self._popen else None

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._popen is not None and self._popen.poll() is None

    def start(self) -> None:
        """Start it. Returns at once."""
        reading, self._lifeline = os.pipe()
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self.log_file.open("ab") as log:
                self._popen = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=self._environment | {SUPERVISED_FD: str(reading)},
                    pass_fds=(reading,),
                    # Ctrl-C on the terminal is for the supervisor alone: it ends its children in order.
                    start_new_session=True,
                )
        finally:
            os.close(reading)
        threading.Thread(target=self._follow, args=(self._popen,), name=f"{self.name}-output", daemon=True).start()

    def wait_ready(self, timeout_s: float) -> int:
        """Wait for the ready line; returns the port.

        Raises:
            ProcessFailed: it ended, or did not become ready in time.
        """
        self._changed.wait(timeout_s)
        if self.port is not None:
            return self.port
        if self.running:
            raise self._failed(f"was not ready within {timeout_s:g} s")
        raise self._failed(f"ended with code {self.code} before it was ready")

    def terminate(self) -> None:
        """Ask it to drain and end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash of the machine would."""
        self._signal(signal.SIGKILL)

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for its end; the code, or None when the time is over."""
        if self._popen is None:
            return None
        try:
            return self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, grace_s: float) -> int | None:
        """Terminate, wait, and kill what does not end; the exit code."""
        self.terminate()
        if self.wait(grace_s) is None:
            self.kill()
        return self.wait()

    def log_tail(self) -> str:
        """The end of the log."""
        try:
            with self.log_file.open("rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - LOG_TAIL_BYTES))
                return log.read().decode(errors="replace").strip()
        except FileNotFoundError:
            return ""

    def _signal(self, number: signal.Signals) -> None:
        if self._popen is not None:
            with contextlib.suppress(ProcessLookupError):
                self._popen.send_signal(number)

    def _failed(self, what: str) -> ProcessFailed:
        return ProcessFailed(name=self.name, what=what, log_file=str(self.log_file), tail=self.log_tail())

    def _follow(self, popen: subprocess.Popen[bytes]) -> None:
        """Find the ready line on stdout, send the rest to the log, and wait for the end."""
        assert popen.stdout is not None
        stdout: IO[bytes] = popen.stdout
        with stdout, self.log_file.open("ab") as log:
            for line in stdout:
                port = ready_port(line)
                if port is not None and self.port is None:
                    self.port = port
                    self._changed.set()
                else:
                    log.write(line)
                    log.flush()
        code = popen.wait()
        self._changed.set()
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        if self._on_exit is not None:
            self._on_exit(self, code)


def ready_port(line: bytes) -> int | None:
    """The port in a ready line, or None when the line is something else."""
    try:
        content = json.loads(line)
    except ValueError:
        return None
    port = content.get("port") if isinstance(content, dict) and "service" in content else None
    return port if isinstance(port, int) else None
