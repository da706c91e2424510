"""The two spans of a hop, as marks, by OpenTelemetry's messaging conventions.

`{operation} {destination template}`, never an inbox's own name; the entry id gives the queue time for free.
"""

from hereabouts.schemas.ids import new_span_id
from hereabouts.schemas.marks import PackedMark, Service, SpanKind

from . import keys
from .port import Message


def hop_marks(
    message: Message,
    sent_at_ns: int,
    received_at_ns: int,
    *,
    sender: Service,
    receiver: Service,
    destination: str,
    parent_id: str | None,
    handled_at_ns: int | None = None,
) -> tuple[PackedMark, PackedMark]:
    """The marks of one message's way over a stream: "send edge.inbox" and "process edge.inbox".

    Args:
        message: as it was received (its entry id is the message id).
        sent_at_ns: the sender's clock when it was given to the outbox.
        received_at_ns: the receiver's clock when the handler got it.
        sender, receiver: the services on both ends.
        destination: the stream's name; only its bounded template is kept.
        parent_id: the span under which the message was sent.
        handled_at_ns: when the handler was done with it; `received_at_ns` when None.

    Returns:
        The producer's mark, and the consumer's beneath it.
    """
    template = keys.template_of(destination)
    common: dict[str, str | int | float | bool] = {
        "messaging.system": "redis",
        "messaging.destination.name": template,
        "messaging.destination.template": template,
        "messaging.message.conversation_id": message.correlation_id,
        "messaging.message.body.size": len(message.body),
    }
    if message.entry_id:
        common["messaging.message.id"] = message.entry_id
    send = PackedMark(
        span_id=new_span_id(),
        parent_id=parent_id,
        name=f"send {template}",
        service=sender,
        kind=SpanKind.PRODUCER,
        start_ns=sent_at_ns,
        end_ns=max(sent_at_ns, received_at_ns),
        attributes={**common, "messaging.operation.type": "send", "messaging.operation.name": "send"},
    )
    process = PackedMark(
        span_id=new_span_id(),
        parent_id=send.span_id,
        name=f"process {template}",
        service=receiver,
        kind=SpanKind.CONSUMER,
        start_ns=received_at_ns,
        end_ns=max(received_at_ns, handled_at_ns or received_at_ns),
        attributes={**common, "messaging.operation.type": "process", "messaging.operation.name": "process"},
    )
    return send, process
