"""A message as the flat fields of a stream entry, and back."""

from hereabouts.schemas.bus_messages import Kind

from .commands import Argument, Fields
from .port import Message
from .sealing import Sealer

VERSION = "1"
SEALED = frozenset({Kind.RESULT})
"""Kinds whose body holds what a person disclosed: sealed, since deletion does not clean an append-only file."""

_KINDS = {kind.value.encode(): kind for kind in Kind}


class MalformedEntry(ValueError):
    """An entry that no version of ours wrote. Carries no part of it."""


def aad(kind: str, tenant: str, correlation_id: str) -> bytes:
    """What a seal is bound to: a body moved to another call, tenant or kind does not open."""
    return f"{kind}|{tenant}|{correlation_id}".encode()


def encode(message: Message, sealer: Sealer) -> tuple[Argument, ...]:
    """Field names and values: version, kind, correlation id, tenant, reply stream, expiry, traceparent, body."""
    body = message.body
    if message.kind in SEALED:
        body = sealer.seal(body, aad(message.kind, message.tenant, message.correlation_id))
    return (
        "v", VERSION,
        "k", message.kind.value,
        "c", message.correlation_id,
        "t", message.tenant,
        "r", message.reply_to,
        "x", message.expires_at_ms,
        "p", message.traceparent,
        "b", body,
    )  # fmt: skip


def decode(entry_id: bytes, fields: Fields, sealer: Sealer) -> Message:
    """The message of an entry.

    Raises:
        MalformedEntry: a field is missing or unreadable, or the version is not ours.
        SealBroken: the body was sealed with a key that is not here, or for another message.
    """
    try:
        if fields[b"v"] != b"1":
            raise MalformedEntry
        kind = _KINDS[fields[b"k"]]
        correlation_id = fields[b"c"].decode("ascii")
        tenant = fields[b"t"].decode()
        reply_to = fields[b"r"].decode("ascii")
        expires_at_ms = int(fields[b"x"])
        traceparent = fields[b"p"].decode("ascii")
        body = fields[b"b"]
    except (KeyError, ValueError):
        raise MalformedEntry from None
    if kind in SEALED:
        body = sealer.open(body, aad(kind, tenant, correlation_id))
    return Message(kind, correlation_id, tenant, body, reply_to, expires_at_ms, traceparent, entry_id.decode("ascii"))
