"""Which pages may open a socket: their Origin must be on the allowlist, exactly (WebSockets know no same-origin policy)."""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

_ORIGIN = re.compile(r"^https?://[a-z0-9.\-\[\]:]{1,255}$")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def is_origin(text: str | None) -> bool:
    """Whether a header could be a page's origin at all: a scheme and an authority, lower case, no path, not `null`.

    Checked before the handshake, when the tenant is not known yet.
    """
    return text is not None and _ORIGIN.fullmatch(text) is not None


def origin_of(url: str) -> str:
    """The origin of a URL as browsers write it: without a default port (RFC 6454, section 6.2)."""
    parts = urlsplit(url)
    scheme, host = parts.scheme.lower(), (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    if parts.port is None or parts.port == _DEFAULT_PORTS.get(scheme):
        return f"{scheme}://{host}"
    return f"{scheme}://{host}:{parts.port}"


def may_connect(origin: str | None, own: str, allowed: Iterable[str]) -> bool:
    """Whether a page of this origin may speak for a tenant: the bridge's own pages, and those the tenant lists."""
    return origin is not None and (origin == own or origin in set(allowed))
