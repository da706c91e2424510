"""What happens to entries once they are read: decode, drop what is too old, open, hand over, delete."""

import logging
from collections.abc import Sequence

from hereabouts.schemas.bus_messages import Kind
from hereabouts.schemas.errors import HereaboutsError, SealBroken

from . import keys, metrics
from .clock import Clock, local_ms
from .commands import Commands, Entry
from .entries import MalformedEntry, decode
from .port import Message, MessageHandler
from .sealing import Sealer

_log = logging.getLogger("hereabouts.bus")


class Receiver:
    """One inbox's side of delivery. No entry, however broken, keeps the others from being handed over."""

    def __init__(
        self, stream: str, commands: Commands, sealer: Sealer, clock: Clock, on_messages: MessageHandler
    ) -> None:
        self._stream = stream
        self._commands = commands
        self._sealer = sealer
        self._clock = clock
        self._on_messages = on_messages
        destination = keys.template_of(stream)
        self._received = {kind: metrics.RECEIVED.labels(destination, kind.value) for kind in Kind}
        self._expired = metrics.EXPIRED.labels(destination)
        self._malformed = metrics.MALFORMED.labels(destination)
        self._queue_age = metrics.QUEUE_AGE.labels(destination)

    def take(self, entries: Sequence[Entry]) -> None:
        """Handle all that one read returned, then delete it in one command."""
        if not entries:
            return
        self._clock.observe_entry(_milliseconds(entries[-1][0]), local_ms())
        now_ms = self._clock.now_ms()
        messages: list[Message] = []
        for entry_id, fields in entries:
            try:
                message = decode(entry_id, fields, self._sealer)
            except (MalformedEntry, SealBroken) as error:
                self._malformed.inc()
                _log.warning("dropped an entry: %s", type(error).__name__)
                continue
            if 0 < message.expires_at_ms <= now_ms:
                self._expired.inc()
                continue
            self._queue_age.observe(max(0, now_ms - message.queued_at_ms) / 1000)
            self._received[message.kind].inc()
            messages.append(message)
        if messages:
            try:
                self._on_messages(messages)
            except Exception as error:
                # Neither the text nor the frame's values: both may hold what a person disclosed.
                _log.error("the inbox handler raised %s; %d messages were lost", type(error).__name__, len(messages))
        try:
            self._commands.call("XDEL", self._stream, *[entry_id for entry_id, _ in entries], urgent=True, lazy=True)
        except HereaboutsError:
            pass  # closing; the inbox goes as a whole


def _milliseconds(entry_id: bytes) -> int:
    return int(entry_id.partition(b"-")[0])
