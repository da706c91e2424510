"""The services of one machine: their names, modules and ports, and the environment that makes them one deployment."""

import http.client
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from .serving import bind
from .settings import BRAIN_PORT, BROWSER_BRIDGE_PORT, ENV_PREFIX, NODE_GATEWAY_PORT
from .supervision import SUPERVISED_FD

PROBE_INTERVAL_S = 0.05
PROBE_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """One service process."""

    name: str
    module: str
    default_port: int
    url_setting: str
    """The setting, known to all services, that holds this one's public base URL."""


BRAIN: Final = ServiceSpec("brain", "hereabouts.brain", BRAIN_PORT, "brain_url")
BROWSER_BRIDGE: Final = ServiceSpec("browser-bridge", "hereabouts.browser_bridge", BROWSER_BRIDGE_PORT, "browser_url")
NODE_GATEWAY: Final = ServiceSpec("node-gateway", "hereabouts.node_gateway", NODE_GATEWAY_PORT, "node_url")

SERVICES: Final = (BRAIN, BROWSER_BRIDGE, NODE_GATEWAY)
"""In the order of their start; edges end first, so that the brain can still answer for them."""

_PER_PROCESS = {f"{ENV_PREFIX}{name}" for name in ("PORT", "READY_FILE")} | {SUPERVISED_FD}


def environments(
    ports: Mapping[str, int],
    *,
    redis_url: str,
    data_dir: Path,
    host: str = "127.0.0.1",
    base: Mapping[str, str] = os.environ,
) -> dict[str, dict[str, str]]:
    """The environment of each service by name. A public URL that `base` sets already is kept."""
    outside = {name: value for name, value in base.items() if name not in _PER_PROCESS}
    urls = {f"{ENV_PREFIX}{spec.url_setting.upper()}": base_url(host, ports[spec.name]) for spec in SERVICES}
    common = urls | outside
    common |= {
        f"{ENV_PREFIX}REDIS_URL": redis_url,
        f"{ENV_PREFIX}DATA_DIR": str(data_dir),
        f"{ENV_PREFIX}HOST": host,
    }
    return {spec.name: common | {f"{ENV_PREFIX}PORT": str(ports[spec.name])} for spec in SERVICES}


def base_url(host: str, port: int) -> str:
    """Where this machine reaches a service; an address that means "all" is reached by loopback."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


def free_port(host: str, wanted: int = 0) -> int:
    """`wanted` if it is free, else one that is. Another process may still take it before it is used.

    Raises:
        OSError: the host is not ours.
    """
    if wanted:
        try:
            with bind(host, wanted):
                return wanted
        except OSError:
            pass
    with bind(host, 0) as listener:
        port: int = listener.getsockname()[1]
        return port


def unready(url: str) -> str | None:
    """Why the service at a base URL is not ready, in words, or None."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PROBE_TIMEOUT_S)
    try:
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        content = response.read()
    except (OSError, http.client.HTTPException) as problem:
        return f"{url} does not answer: {problem}"
    finally:
        connection.close()
    if response.status == 200:
        return None
    try:
        causes = json.loads(content)["causes"]
        return "; ".join(f"{name}: {cause}" for name, cause in causes.items())
    except (ValueError, KeyError, AttributeError, TypeError):
        return f"{url}/readyz answers {response.status}"


def wait_healthy(url: str, timeout_s: float) -> str | None:
    """Wait until `/readyz` says ready; None, or the last cause when the time is over."""
    deadline = time.monotonic() + timeout_s
    while (cause := unready(url)) is not None:
        if time.monotonic() >= deadline:
            return cause
        time.sleep(PROBE_INTERVAL_S)
    return None
