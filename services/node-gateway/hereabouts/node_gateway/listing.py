"""Records in the words of the operator's lists. Pure."""

from hereabouts.schemas.node_wire import ApprovalState, NodeEntry, PairedNode, PendingPairing
from hereabouts.schemas.records import ClientRecord, PairingRecord


def node_entry(record: PairingRecord, live: ClientRecord | None, waits: bool) -> NodeEntry:
    """A paired node, and its connection if there is one. `waits`: commands of it are not approved yet."""
    return NodeEntry(
        node_id=record.device_id,
        display_name=record.display_name,
        platform=record.platform,
        version=record.version,
        device_family=record.device_family,
        commands=tuple(record.commands),
        approval_state=ApprovalState.PENDING_APPROVAL if waits else ApprovalState.APPROVED,
        paired=True,
        connected=live is not None,
        connected_at_ms=live.since_ms if live else None,
        last_seen_at_ms=record.last_seen_at_ms,
    )


def paired_node(record: PairingRecord) -> PairedNode:
    """A device that was let in."""
    return PairedNode(
        node_id=record.device_id,
        display_name=record.display_name,
        platform=record.platform,
        version=record.version,
        device_family=record.device_family,
        commands=tuple(record.commands),
        created_at_ms=record.requested_at_ms,
        approved_at_ms=record.approved_at_ms,
        last_connected_at_ms=record.last_seen_at_ms,
    )


def pending_pairing(record: PairingRecord, is_repair: bool) -> PendingPairing:
    """A device that waits. `is_repair`: it is paired already and offers more commands than were approved."""
    return PendingPairing(
        request_id=record.request_id,
        node_id=record.device_id,
        display_name=record.display_name,
        platform=record.platform,
        version=record.version,
        device_family=record.device_family,
        commands=tuple(record.commands),
        is_repair=is_repair or None,
        ts=record.requested_at_ms,
    )
