"""What the operating system grants, and whether the node counts as open: ports and their Linux answers."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Grant:
    """What the system grants right now, apart from what the person chose in our settings."""

    foreground: bool
    """A position may be asked for while the node is open."""
    background: bool
    """... and while it is not."""
    precise: bool


class Grants(Protocol):
    """The system's permission for positions."""

    def current(self) -> Grant:
        """The grant at this moment; it can change between two calls."""
        ...


class Presence(Protocol):
    """Whether the node is in the foreground."""

    def is_foreground(self) -> bool:
        """True while the person uses the machine."""
        ...


class AllGranted:
    """For providers that need no permission of the system: `fixed` and `route`."""

    def current(self) -> Grant:
        """Everything."""
        return Grant(foreground=True, background=True, precise=True)


class LoginSession:
    """Foreground on a headless Linux machine: started on a terminal, or the user has an active login session.

    logind keeps each user's state in a file; `sd_uid_get_state(3)` reads the same line.
    """

    def __init__(self, on_terminal: bool | None = None, users: Path = Path("/run/systemd/users")) -> None:
        self._on_terminal = sys.stdin is not None and sys.stdin.isatty() if on_terminal is None else on_terminal
        self._state_file = users / str(os.getuid())

    def is_foreground(self) -> bool:
        """True on a terminal, or while logind calls the user `active`."""
        if self._on_terminal:
            return True
        try:
            return "STATE=active" in self._state_file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return False
