"""What the person decided: a settings file, read again whenever it counts, and the environment."""

import json
import logging
import os
import socket
import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Any

from platformdirs import user_config_path
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from hereabouts.schemas.node_wire import validation_problems

from .errors import SettingsError
from .identity import default_state_dir

log = logging.getLogger(__name__)

DEFAULT_GATEWAY_URL = "ws://127.0.0.1:8712/"
"""Where `hereabouts up` puts the node gateway on this machine."""
ENV_PREFIX = "HEREABOUTS_NODE_"


class EnabledMode(StrEnum):
    """The selector. Off until the person says otherwise."""

    OFF = "off"
    WHILE_USING = "whileUsing"
    ALWAYS = "always"


class LocationSettings(BaseModel):
    """`location.enabledMode` and `location.preciseEnabled`. A misspelt key is an error, not an open door."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, extra="forbid", hide_input_in_errors=True)

    enabled_mode: EnabledMode = Field(default=EnabledMode.OFF, alias="enabledMode")
    precise_enabled: bool = Field(default=True, alias="preciseEnabled", strict=True)


def default_settings_file() -> Path:
    """Where the settings file is looked for when none is named."""
    return user_config_path("hereabouts", appauthor=False) / "node.toml"


class NodeSettings(BaseSettings):
    """How a node runs. Arguments win over HEREABOUTS_NODE_* in the environment, and that over the file."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True)

    gateway_url: str = Field(default=DEFAULT_GATEWAY_URL, pattern=r"^wss?://")
    token: SecretStr | None = None
    display_name: str = Field(default_factory=socket.gethostname, min_length=1, max_length=80)
    provider: str | None = Field(default=None, repr=False)
    """A provider in its short form, such as `route:FILE.gpx`; not shown, since `fixed:` holds a position."""
    settings_file: Path | None = None
    """The file that says whether and how exactly the position may be told; None means that it may not."""
    state_dir: Path = Field(default_factory=default_state_dir)


FILE_FIELDS = {"gatewayUrl": "gateway_url", "token": "token", "displayName": "display_name", "provider": "provider"}
"""What the settings file may say besides `location`."""


def load_settings(settings_file: Path | None = None, **arguments: Any) -> NodeSettings:
    """The settings of one run; arguments that are None do not count.

    A file that is named must be there; the default one may be missing.

    Raises:
        SettingsError: a field or the file cannot be used.
    """
    named = settings_file or _path_from_env()
    file = named or (default_settings_file() if default_settings_file().exists() else None)
    values: dict[str, Any] = {"settings_file": file}
    if file is not None:
        document = read_document(file)
        values |= {
            name: document[key]
            for key, name in FILE_FIELDS.items()
            if key in document and f"{ENV_PREFIX}{name.upper()}" not in os.environ
        }
        location_settings(document)
    values |= {name: value for name, value in arguments.items() if value is not None}
    try:
        return NodeSettings(**values)
    except ValidationError as error:
        raise SettingsError(validation_problems(error)) from None


def read_document(file: Path) -> dict[str, Any]:
    """The settings file, TOML or (by its name's end) JSON.

    Raises:
        SettingsError: it cannot be read.
    """
    try:
        text = file.read_text(encoding="utf-8")
        document = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise SettingsError(f"{file} is not valid {'JSON' if file.suffix == '.json' else 'TOML'}") from None
    if not isinstance(document, dict):
        raise SettingsError(f"{file} is not an object")
    return document


def location_settings(document: dict[str, Any]) -> LocationSettings:
    """The `location` part of a settings file, as a table or in dotted keys.

    Raises:
        SettingsError: a value is not one of the allowed ones.
    """
    table = document.get("location", {})
    dotted = {key.removeprefix("location."): value for key, value in document.items() if key.startswith("location.")}
    if not isinstance(table, dict):
        raise SettingsError("location: must be a table")
    try:
        return LocationSettings.model_validate(table | dotted)
    except ValidationError as error:
        raise SettingsError(f"location: {validation_problems(error)}") from None


class LocationSwitch:
    """What the person allows right now: the file is read again at each call, so a change counts at once.

    A file that cannot be read or understood means off.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._complained = False

    def __call__(self) -> LocationSettings:
        """The location settings at this moment."""
        if self._file is None:
            return LocationSettings()
        try:
            found = location_settings(read_document(self._file))
        except SettingsError as error:
            if not self._complained:
                log.warning("location sharing is off until the settings file is repaired: %s", error)
                self._complained = True
            return LocationSettings()
        self._complained = False
        return found


def _path_from_env() -> Path | None:
    value = os.environ.get(f"{ENV_PREFIX}SETTINGS_FILE")
    return Path(value) if value else None
