"""Supervised life: a process whose supervisor died ends itself.

The supervisor keeps the writing end of a pipe open and hands the reading end down; when the supervisor dies, however
it dies, the kernel closes its end and the reader sees end of file.
"""

import asyncio
import os
from collections.abc import Callable

SUPERVISED_FD = "HEREABOUTS_SUPERVISED_FD"


def supervised_fd(environ: "os._Environ[str] | dict[str, str]" = os.environ) -> int | None:
    """The inherited descriptor, taken out of the environment so that a grandchild does not take it for its own.

    Raises:
        ValueError: the variable names no open descriptor.
    """
    text = environ.pop(SUPERVISED_FD, None)
    if text is None:
        return None
    try:
        descriptor = int(text)
        os.fstat(descriptor)
    except (ValueError, OSError) as problem:
        raise ValueError(f"{SUPERVISED_FD} is not an open file descriptor") from problem
    os.set_inheritable(descriptor, False)
    return descriptor


def watch_supervisor(descriptor: int, on_gone: Callable[[], None]) -> None:
    """Call `on_gone` once, from the running loop, when the supervisor is no more."""
    loop = asyncio.get_running_loop()
    os.set_blocking(descriptor, False)

    def readable() -> None:
        try:
            if os.read(descriptor, 1024):
                return
        except BlockingIOError:
            return
        loop.remove_reader(descriptor)
        os.close(descriptor)
        on_gone()

    loop.add_reader(descriptor, readable)
