"""`hereabouts node …`: run a device, and make the token that lets one in."""

import asyncio
import logging
from pathlib import Path

from rich.console import Console
from rich.logging import RichHandler
from rich.text import Text

from hereabouts.node import EnabledMode, Phase, Status, load_settings, run
from hereabouts.runtime.keyring import SECRET_FILE, load_keyring
from hereabouts.runtime.settings import ServiceSettings
from hereabouts.runtime.tokens import Tokens
from hereabouts.schemas.claims import TokenKind
from hereabouts.schemas.errors import HereaboutsError

from .command import command


class NoDeployment(HereaboutsError):
    code = "no_deployment"
    template = "{data_dir} holds no deployment's secret. Run `{start}` first, or set HEREABOUTS_SECRET."


PHASE_STYLES = {Phase.CONNECTED: "green", Phase.PAIRING: "yellow", Phase.DISCONNECTED: "red", Phase.CONNECTING: "dim"}


def gateway_token(data_dir: Path, tenant: str, user: str, ttl_s: float, auto_approve: bool) -> str:
    """A token that lets a user's devices in, signed with this deployment's secret.

    Raises:
        NoDeployment: the secret is not on this machine.
    """
    settings = ServiceSettings(data_dir=data_dir)
    if settings.secret is None and not (data_dir / SECRET_FILE).exists():
        raise NoDeployment(
            data_dir=str(data_dir), start=command("up")
        )  # a secret made here would sign what nobody accepts
    keyring = load_keyring(settings)
    return Tokens(keyring).sign(TokenKind.GATEWAY, tenant, user=user, ttl_s=ttl_s, auto_approve=auto_approve)


def write_settings(path: Path, mode: EnabledMode, precise: bool = True) -> Path:
    """A settings file that says how far a device may tell its position. Readable by this user only."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600)
    path.write_text(f'[location]\nenabledMode = "{mode.value}"\npreciseEnabled = {str(precise).lower()}\n')
    return path


def run_node(
    console: Console,
    *,
    url: str | None,
    token: str | None,
    provider: str | None,
    settings_file: Path | None,
    state_dir: Path | None,
    display_name: str | None,
) -> None:
    """Run a device until it is told to stop.

    Raises:
        NodeFault: it cannot work as it is set up; the text says why.
    """
    logging.basicConfig(
        level=logging.WARNING, format="%(message)s", handlers=[RichHandler(console=console, show_path=False)]
    )
    settings = load_settings(
        settings_file,
        gateway_url=url,
        token=token,
        provider=provider,
        state_dir=state_dir,
        display_name=display_name,
    )

    def say(status: Status) -> None:
        line = Text(f"device {status.device_id[:12]} ")
        line.append(status.phase.value, style=PHASE_STYLES[status.phase])
        if status.request_id:
            line.append(f": request {status.request_id} waits for approval")
        console.print(line)

    asyncio.run(run(settings, on_status=say))
