"""Which brain, which key, which session a command means."""

from dataclasses import dataclass

from hereabouts.client import Hereabouts
from hereabouts.schemas.errors import HereaboutsError, NotFound

from .command import command
from .place import Place


class NoSession(HereaboutsError):
    code = "no_session"
    template = "Name a session with --session, or make one with `{make}`."


@dataclass(frozen=True, slots=True)
class Target:
    """A brain and the place that remembers things about it."""

    place: Place
    url: str | None = None
    key: str | None = None

    def client(self) -> Hereabouts:
        """A client of the named brain, else of the one that runs here.

        Raises:
            NotRunning: no URL was named, and nothing runs here.
        """
        return Hereabouts(self.url or self.place.state().brain_url, self.key or self.place.dev_key())

    async def session(self, hereabouts: Hereabouts, named: str | None) -> str:
        """The session named, else the one made last, if it still lives.

        Raises:
            NoSession: there is none.
        """
        if named is not None:
            return named
        last = self.place.last_session()
        if last is None:
            raise NoSession(make=command("session new"))
        try:
            await hereabouts.get_session(last)
        except NotFound:
            raise NoSession(make=command("session new")) from None
        return last
