"""What can go wrong on the bus, beyond the errors that callers see. Texts never repeat an argument of a command."""

from hereabouts.schemas.errors import BusUnavailable, HereaboutsError


class InboxGone(BusUnavailable):
    """The stream that a message was for does not exist: its process has ended, or Redis lost it."""

    template = "The process that this was for is gone."


class CommandRefused(BusUnavailable):
    """Redis answered a command with an error. `word` is the error's first word, such as WRONGTYPE or OOM.

    The rest of Redis's text is not kept: it can quote arguments.
    """

    template = "The message bus refused a command ({word})."

    def __init__(self, word: str) -> None:
        super().__init__(word=word)
        self.word = word


class UnsupportedUrl(BusUnavailable):
    """The address names a topology or a form that is not spoken here."""

    template = "{problem}"


class ServerFailed(HereaboutsError):
    """The embedded server did not start or did not end."""

    code = "server_failed"
    template = "The embedded server did not start or stop as it should. Its log says why: {log}"
