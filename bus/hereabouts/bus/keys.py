"""The one place that names streams and keys.

What stands in braces is a Cluster's hash tag. Parts that come from outside are percent-encoded, so that no tenant, user
or code can carry a brace, a colon or a glob into a key's own structure.
"""

from urllib.parse import quote

from hereabouts.schemas.ids import time_of
from hereabouts.schemas.limits import JOURNAL_PARTITIONS
from hereabouts.schemas.records import Role

INSTANCES = "instances"
"""Sorted set: instance → when it last renewed its lease (Redis's milliseconds)."""

WITHOUT_TTL = ("tenant:", "pairing:")
"""The prefixes of the only keys that may stand without a time to live."""

_TEMPLATES = {role.value: f"{role.value}.inbox" for role in Role}


def part(text: str) -> str:
    """A part of a key, with everything encoded that is not a letter, a digit or one of ``-._~``."""
    return quote(text, safe="")


def role_of(instance: str) -> Role:
    """The role that an instance's name begins with.

    Raises:
        ValueError: this is no instance's name.
    """
    return Role(instance.partition("_")[0])


def inbox(instance: str) -> str:
    """`edge:{i:<instance>}` or `brain:{i:<instance>}`.

    Raises:
        ValueError: this is no instance's name.
    """
    return f"{role_of(instance).value}:{{i:{part(instance)}}}"


def template_of(stream: str) -> str:
    """The bounded name of an inbox for spans and metrics: never an instance's own."""
    return _TEMPLATES.get(stream.partition(":")[0], "other")


def lease(instance: str) -> str:
    """Holds the instance's epoch for as long as the instance renews it."""
    return f"lease:{{i:{part(instance)}}}"


def epoch(instance: str) -> str:
    """Stands beside the inbox. When it is gone and the process is not, Redis lost data."""
    return f"epoch:{{i:{part(instance)}}}"


def journal(partition: int) -> str:
    """One journal partition."""
    return f"journal:{{j:{partition}}}"


def journal_of(correlation_id: str) -> str:
    """The partition of a call, by the random end of its correlation id.

    Raises:
        ValueError: the text is no UUIDv7.
    """
    time_of(correlation_id)
    return journal(int(correlation_id[-4:], 16) % JOURNAL_PARTITIONS)


def clients(tenant: str, session: str) -> str:
    """Hash: connection → record, the tabs of a session."""
    return f"clients:{{t:{part(tenant)}:s:{part(session)}}}"


def nodes(tenant: str, user: str) -> str:
    """Hash: connection → record, the nodes of a user."""
    return f"nodes:{{t:{part(tenant)}:u:{part(user)}}}"


def record(kind: str, key: str) -> str:
    """A record. The slash stays readable: it joins the two halves of a key."""
    return f"{kind}:{{r:{quote(key, safe='/')}}}"


def record_prefix(kind: str, prefix: str) -> str:
    """What the keys of all records begin with whose own key begins with `prefix`."""
    return f"{kind}:{{r:{quote(prefix, safe='/')}"
