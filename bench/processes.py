"""The processes of a measurement: started, spoken to by lines, their CPU read, ended."""

import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import psutil

ANSWER_LIMIT_S = 60.0
"""A process that says nothing for so long is broken; a round takes seconds."""

END_LIMIT_S = 10.0


class Silent(RuntimeError):
    """A process ended or said nothing."""


class Process:
    """A child that is spoken to in JSON lines. Its errors go to the file `log`."""

    def __init__(self, name: str, command: list[str], log: Path, env: dict[str, str] | None = None) -> None:
        self.name = name
        self._log = log
        with log.open("ab") as errors:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **(env or {})},
                start_new_session=True,  # Ctrl-C reaches the bench alone, which ends its children in order
            )
        self._ps = psutil.Process(self._popen.pid)
        self._read = b""

    @classmethod
    def module(cls, module: str, *arguments: str, log: Path, env: dict[str, str] | None = None) -> Self:
        """A Python module of ours, by this interpreter."""
        return cls(module.rpartition(".")[2], [sys.executable, "-m", module, *arguments], log, env)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._popen.pid

    def say(self, message: Any) -> None:
        """Write one line."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps(message).encode() + b"\n")
        self._popen.stdin.flush()

    def line(self) -> str:
        """The next line of its output.

        Raises:
            Silent: it ended, or ANSWER_LIMIT_S passed.
        """
        output = self._popen.stdout
        assert output is not None
        while b"\n" not in self._read:
            ready, _, _ = select.select([output], [], [], ANSWER_LIMIT_S)
            part = os.read(output.fileno(), 65_536) if ready else b""
            if not part:
                state = f"ended with {self._popen.poll()}" if ready else "says nothing"
                tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])
                raise Silent(f"{self.name} {state}\n{tail}")
            self._read += part
        text, _, self._read = self._read.partition(b"\n")
        return text.decode(errors="replace")

    def answer(self) -> Any:
        """The next line of its output, from JSON; lines that are none (a log on stdout) are passed over."""
        while True:
            try:
                return json.loads(self.line())
            except json.JSONDecodeError:
                continue

    def cpu_us(self) -> float:
        """User and system time so far, in microseconds (the kernel counts in ticks of 10,000 each)."""
        times = self._ps.cpu_times()
        return (times.user + times.system) * 1e6

    def end(self) -> None:
        """SIGTERM, and SIGKILL for one that stays."""
        if self._popen.poll() is None:
            self._popen.terminate()
            try:
                self._popen.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._popen.kill()
                self._popen.wait()
        for stream in (self._popen.stdin, self._popen.stdout):
            if stream is not None:
                stream.close()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for_port(port: int, process: Process) -> None:
    """Until something listens there.

    Raises:
        Silent: not within ANSWER_LIMIT_S.
    """
    ends = time.monotonic() + ANSWER_LIMIT_S
    while time.monotonic() < ends:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)  # another process's port cannot be awaited
    raise Silent(f"{process.name} does not listen on {port}")
