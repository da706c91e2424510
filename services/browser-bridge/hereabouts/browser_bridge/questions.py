"""What the dialect must ask and the resolver answers."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class SessionQuestion:
    """Does this session exist, and whose pages may speak for its tenant?"""

    tenant: str
    session: str
    purpose: Literal["hello", "bind"]


@dataclass(frozen=True, slots=True)
class SessionAnswer:
    """`allowed_origins` is None when there is no such tenant or session."""

    allowed_origins: tuple[str, ...] | None
