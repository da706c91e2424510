"""What agent platforms import: a typed client of the brain's HTTP API, asynchronous and synchronous.

async with Hereabouts("http://127.0.0.1:8710", api_key) as hereabouts:
    session = await hereabouts.create_session(user="u_1")
    answer = await hereabouts.location(session.session_id, purpose="To find a café near you")
"""

from hereabouts.schemas.answers import Declined, Granted, LocationAnswer, Pending, ToolAnswer, Unavailable
from hereabouts.schemas.errors import HereaboutsError

from .asynchronous import Hereabouts
from .errors import AnswerLost, ServiceError, Unreachable
from .synchronous import SyncHereabouts

__all__ = [
    "AnswerLost",
    "Declined",
    "Granted",
    "Hereabouts",
    "HereaboutsError",
    "LocationAnswer",
    "Pending",
    "ServiceError",
    "SyncHereabouts",
    "ToolAnswer",
    "Unavailable",
    "Unreachable",
]
