"""`python -m hereabouts.node`: a node with the settings of the environment and the settings file."""

import asyncio
import logging
import sys

from .connection import Status
from .errors import NodeFault
from .run import run
from .settings import load_settings

log = logging.getLogger("hereabouts.node")


def main() -> int:
    """Run until told to stop. Returns the exit code: 0 after a stop, 1 when the node cannot work as it is set up."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        asyncio.run(run(load_settings(), on_status=_log_status))
    except NodeFault as fault:
        log.error("%s", fault)
        return 1
    return 0


def _log_status(status: Status) -> None:
    details = f", waiting for approval of {status.request_id}" if status.request_id else ""
    log.info("node %s %s%s", status.device_id[:12], status.phase.value, details)


if __name__ == "__main__":
    sys.exit(main())
