"""What a running Hereabouts leaves in its data folder for other commands: where it is, and the developer's key."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from hereabouts.runtime.tokens import new_api_key
from hereabouts.schemas.errors import HereaboutsError

from .command import command

STATE_FILE = "state.json"
KEY_FILE = "dev-key"
SESSION_FILE = "session"
LOCK_FILE = "up.lock"
DEV_TENANT = "dev"


class NotRunning(HereaboutsError):
    code = "not_running"
    template = "No Hereabouts is running for {data_dir}. Start one with `{start}`, or name one with --url and --key."


class RunsAlready(HereaboutsError):
    code = "runs_already"
    template = "Hereabouts runs already for {data_dir}{where}. Stop it first, or use another --data-dir."


class State(BaseModel):
    """Where the services of one `up` are."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    pid: int
    brain_url: str
    browser_url: str
    node_url: str


class Place:
    """One data folder."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder for one `up`. The lock ends with the process, however it ends.

        Raises:
            RunsAlready: another process holds it.
        """
        self.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self.data_dir / LOCK_FILE).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunsAlready(data_dir=str(self.data_dir), where=self._where()) from None
            try:
                yield
            finally:
                (self.data_dir / STATE_FILE).unlink(missing_ok=True)

    def write_state(self, state: State) -> None:
        """Tell other commands where the services are."""
        self._write(STATE_FILE, state.model_dump_json(indent=2) + "\n")

    def state(self) -> State:
        """Where the services are.

        Raises:
            NotRunning: no `up` holds the folder.
        """
        try:
            found = State.model_validate_json((self.data_dir / STATE_FILE).read_text())
        except (FileNotFoundError, ValidationError):
            raise NotRunning(data_dir=str(self.data_dir), start=command("up")) from None
        if not self._is_held():  # a killed `up` could not take its file away
            raise NotRunning(data_dir=str(self.data_dir), start=command("up"))
        return found

    def dev_key(self) -> str:
        """The dev tenant's API key; made the first time."""
        path = self.data_dir / KEY_FILE
        try:
            return path.read_text().strip()
        except FileNotFoundError:
            key = new_api_key()
            self._write(KEY_FILE, key + "\n")
            return key

    def remember_session(self, session: str) -> None:
        """The session that commands mean when none is named."""
        self._write(SESSION_FILE, session + "\n")

    def last_session(self) -> str | None:
        """The session last made from this machine."""
        try:
            return (self.data_dir / SESSION_FILE).read_text().strip() or None
        except FileNotFoundError:
            return None

    def _where(self) -> str:
        try:
            found = json.loads((self.data_dir / STATE_FILE).read_text())
            return f" (process {found['pid']}, brain at {found['brain_url']})"
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def _is_held(self) -> bool:
        try:
            with (self.data_dir / LOCK_FILE).open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return False
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True

    def _write(self, name: str, text: str) -> None:
        """Whole or not at all, readable by this user only."""
        self.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self.data_dir / f".{name}.{os.getpid()}"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        draft.replace(self.data_dir / name)
