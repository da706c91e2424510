"""Language tags and time zones as a page reports them: kept when well-formed, otherwise left out."""

import re
from collections.abc import Iterable
from functools import cache
from zoneinfo import available_timezones

from hereabouts.schemas.browser_wire import MAX_LANGUAGE_CHARS, MAX_LANGUAGES

# RFC 5646, section 2.1, without the grandfathered tags that browsers do not send.
_TAG = re.compile(
    r"(?i:[a-z]{2,3}(?:-[a-z]{3}){0,3}|[a-z]{4}|[a-z]{5,8})"
    r"(?i:-[a-z]{4})?"
    r"(?i:-(?:[a-z]{2}|[0-9]{3}))?"
    r"(?i:-(?:[a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*"
    r"(?i:-[0-9a-wy-z](?:-[a-z0-9]{2,8})+)*"
    r"(?i:-x(?:-[a-z0-9]{1,8})+)?"
)


def is_language(tag: str) -> bool:
    """Whether a text is a well-formed BCP 47 tag."""
    return len(tag) <= MAX_LANGUAGE_CHARS and tag.isascii() and _TAG.fullmatch(tag) is not None


def languages_of(tags: Iterable[str]) -> list[str]:
    """The well-formed ones in order, each once, MAX_LANGUAGES at most."""
    return list(dict.fromkeys(tag for tag in tags if is_language(tag)))[:MAX_LANGUAGES]


def time_zone_of(name: str | None) -> str | None:
    """The name when it is an IANA time zone."""
    return name if name is not None and name in _time_zones() else None


@cache
def _time_zones() -> frozenset[str]:
    return frozenset(available_timezones())
