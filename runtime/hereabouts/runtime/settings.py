"""What every service process is told by its environment: `HEREABOUTS_…`, one name each."""

from pathlib import Path
from typing import ClassVar, Literal

from platformdirs import user_data_path
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

BRAIN_PORT = 8710
BROWSER_BRIDGE_PORT = 8711
NODE_GATEWAY_PORT = 8712

ENV_PREFIX = "HEREABOUTS_"

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]


def default_data_dir() -> Path:
    """The platform's folder for a user's data: `~/.local/share/hereabouts` on Linux."""
    return user_data_path("hereabouts", appauthor=False)


class ServiceSettings(BaseSettings):
    """Settings that all services share; each service subclasses it with its own and names itself in `service`."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, extra="ignore", hide_input_in_errors=True, validate_default=True, frozen=True
    )

    service: ClassVar[str] = "service"
    """The process's `service.name`; a subclass sets it."""

    redis_url: str | None = Field(default=None, repr=False, description="Redis by URL; unset: the embedded server")
    data_dir: Path = Field(default_factory=default_data_dir, description="embedded server's data, secret, dev key")
    secret: SecretStr | None = Field(
        default=None, description="the deployment's secret, 32 characters or more; every key is derived from it"
    )
    previous_secret: SecretStr | None = Field(
        default=None, description="the secret before a rotation: still opens and verifies, never seals or signs"
    )
    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=0, ge=0, le=65_535, description="port to listen on; 0 takes a free one")
    ready_file: Path | None = Field(default=None, description="gets the ready line instead of stdout")
    log_format: Literal["auto", "json", "console"] = Field(
        default="auto", description="auto: console on a terminal, JSON lines elsewhere"
    )
    log_level: LogLevel = "INFO"
    trace_ratio: float = Field(default=0.1, ge=0, le=1, description="share of fast GRANTED calls that is exported")
    trace_slow_ms: int = Field(default=1_000, ge=0, description="calls at least this slow are always exported, in ms")
    brain_url: str = Field(
        default=f"http://127.0.0.1:{BRAIN_PORT}", description="public base URL of the brain, as callers reach it"
    )
    browser_url: str = Field(
        default=f"http://127.0.0.1:{BROWSER_BRIDGE_PORT}",
        description="public base URL of the browser bridge, as pages reach it",
    )
    node_url: str = Field(
        default=f"http://127.0.0.1:{NODE_GATEWAY_PORT}",
        description="public base URL of the node gateway, as devices reach it",
    )


def socket_url(base_url: str, path: str = "") -> str:
    """The WebSocket address under an http(s) base URL: `http://h:1` and `/ws` give `ws://h:1/ws`."""
    scheme, _, rest = base_url.partition("://")
    return f"{'wss' if scheme in ('https', 'wss') else 'ws'}://{rest.rstrip('/')}{path}"
