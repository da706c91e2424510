"""Whether a device is let in: a decision on records, without I/O and without a clock.

A device stands under a tenant, a user and a role. It has at most two records: a paired one, which stays, and a
pending one, which a person decides and which expires. They are kept apart, so that a retry of the device which
crosses the person's approval cannot undo it.
"""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

from hereabouts.schemas.node_wire import DetailCode, base64url
from hereabouts.schemas.records import PairingRecord, PairingState

from .questions import Admission, AdmissionAnswer, Admitted, CredentialRefused, PairingRequired

DEVICE_TOKEN_PREFIX = "hd_"  # noqa: S105
DEVICE_TOKEN_BYTES = 32
MAX_DEVICE_TOKEN_CHARS = 1_024
"""Prefix, tenant, user and 256 random bits; longer is none of ours."""


@dataclass(frozen=True, slots=True)
class Bearer:
    """For whom a credential speaks."""

    tenant: str
    user: str
    auto_approve: bool = False
    device_token: str | None = field(default=None, repr=False)
    """Set when the credential is a device token: then it must be the one on the record."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer, and what is to be written."""

    answer: AdmissionAnswer
    paired: PairingRecord | None = None
    pending: PairingRecord | None = None
    settled: bool = False
    """The pending record, if any, has become pointless."""


def record_key(tenant: str, user: str, device_id: str, role: str, state: PairingState) -> str:
    """Where a record is kept. Begins with `tenant/device_id`; the user's own text may hold anything, so its hash."""
    who = hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{tenant}/{device_id}/{who}/{role}/{state.value}"


def decide(
    admission: Admission, bearer: Bearer, paired: PairingRecord | None, pending: PairingRecord | None, now_ms: int
) -> Decision:
    """Let the device in, have it wait, or refuse it.

    Args:
        paired: the record of this tenant, user, device and role in state APPROVED, if there is one.
        pending: the same in state PENDING.
        now_ms: milliseconds since the epoch.
    """
    if paired is not None and paired.public_key != admission.public_key:
        # An id is the hash of its key, so this record was not written by us as it stands: do not build on it.
        return Decision(CredentialRefused(DetailCode.DEVICE_AUTH_DEVICE_ID_MISMATCH))
    if bearer.device_token is not None and not (paired and _is_token_of(paired, bearer.device_token)):
        return Decision(CredentialRefused(DetailCode.AUTH_DEVICE_TOKEN_MISMATCH))
    if paired is None and not bearer.auto_approve:
        request = _request(admission, bearer, pending, admission.commands, now_ms)
        return Decision(PairingRequired(request.request_id), pending=request)

    approved = paired or approve(_request(admission, bearer, None, admission.commands, now_ms), None, now_ms)
    wanted = tuple(sorted({*approved.commands, *admission.commands}))
    waiting = None
    if bearer.auto_approve:
        approved = approved.model_copy(update={"commands": list(wanted)})
    elif set(wanted) - set(approved.commands):
        # The device is in; what it newly offers waits for a person of its own (the second gate).
        waiting = _request(admission, bearer, pending, wanted, now_ms)
    token = bearer.device_token or new_device_token(bearer.tenant, bearer.user)
    approved = approved.model_copy(
        update={
            "display_name": admission.display_name,
            "platform": admission.platform,
            "device_family": admission.device_family,
            "version": admission.version,
            "device_token_sha256": token_sha256(token),
            "last_seen_at_ms": now_ms,
        }
    )
    usable = tuple(command for command in admission.commands if command in approved.commands)
    return Decision(
        Admitted(bearer.tenant, bearer.user, usable, token),
        paired=approved,
        pending=waiting,
        settled=waiting is None and pending is not None,
    )


def approve(pending: PairingRecord, paired: PairingRecord | None, now_ms: int) -> PairingRecord:
    """The paired record that a person's yes to `pending` makes; what was approved before stays approved."""
    return pending.model_copy(
        update={
            "state": PairingState.APPROVED,
            "commands": sorted({*pending.commands, *(paired.commands if paired else ())}),
            "approved_at_ms": now_ms,
            "device_token_sha256": paired.device_token_sha256 if paired else None,
            "last_seen_at_ms": paired.last_seen_at_ms if paired else None,
        }
    )


def new_device_token(tenant: str, user: str) -> str:
    """`hd_<tenant>.<user>.<256 random bits>`, each base64url: the names say where to look, the bits are the secret."""
    names = [base64url(name.encode("utf-8", "surrogatepass")) for name in (tenant, user)]
    return DEVICE_TOKEN_PREFIX + ".".join([*names, secrets.token_urlsafe(DEVICE_TOKEN_BYTES)])


def read_device_token(text: str) -> Bearer | None:
    """For whom a device token claims to speak, or None when it is no device token. Proves nothing yet."""
    if not text.startswith(DEVICE_TOKEN_PREFIX) or len(text) > MAX_DEVICE_TOKEN_CHARS:
        return None
    parts = text.removeprefix(DEVICE_TOKEN_PREFIX).split(".")
    if len(parts) != 3 or not all(parts):
        return None
    try:
        tenant, user = (_name(part) for part in parts[:2])
    except ValueError:
        return None
    return Bearer(tenant, user, device_token=text)


def token_sha256(token: str) -> str:
    """What is kept of a device token. It is random, so a slow hash would protect nothing."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _name(part: str) -> str:
    if not part.isascii():
        raise ValueError("not base64url")
    return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True).decode("utf-8")


def _is_token_of(record: PairingRecord, token: str) -> bool:
    kept = record.device_token_sha256
    return kept is not None and hmac.compare_digest(kept, token_sha256(token))


def _request(
    admission: Admission, bearer: Bearer, pending: PairingRecord | None, commands: tuple[str, ...], now_ms: int
) -> PairingRecord:
    return PairingRecord(
        tenant=bearer.tenant,
        user=bearer.user,
        device_id=admission.device_id,
        public_key=admission.public_key,
        state=PairingState.PENDING,
        # One id across retries: the person approves what they saw, however often the device came back meanwhile.
        request_id=pending.request_id if pending else secrets.token_hex(16),
        role=admission.role.value,
        display_name=admission.display_name,
        platform=admission.platform,
        device_family=admission.device_family,
        version=admission.version,
        commands=list(commands),
        requested_at_ms=pending.requested_at_ms if pending else now_ms,
    )
