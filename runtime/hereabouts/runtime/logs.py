"""Logs: structlog, one JSON line an event, or a readable one on a terminal. Positions and tokens never pass.

Lines go to stderr; stdout belongs to the ready line and to commands.
"""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from .settings import ServiceSettings

FORBIDDEN_KEYS = frozenset(
    """
    latitude longitude lat lon lng coords coordinates position location fix altitude heading speed accuracy body payload
    result params arguments token client_token agent_token resume api_key key secret password authorization cookie code
    headers query url_fragment
    """.split()  # noqa: SIM905 - a list of words reads better so
)
"""What may hold a position or a credential. Dropped wherever it stands, however deep."""

_CREDENTIAL = re.compile(
    r"hb_[A-Za-z0-9_-]{20,}|eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*|(?<=://)[^/@\s]*:[^/@\s]*(?=@)"
)
"""API keys, JWTs, and `user:password` in an address, for text that others wrote (exceptions, libraries)."""

QUIET = ("httpx", "httpcore", "faststream", "redis", "asyncio", "websockets")
"""Libraries that tell their routine, addresses included, at INFO."""


def configure(settings: ServiceSettings, service: str) -> None:
    """Set up structlog and route the standard library's loggers through the same processors. Call once, first."""
    console = settings.log_format == "console" or (settings.log_format == "auto" and sys.stderr.isatty())
    level = logging.getLevelNamesMapping()[settings.log_level]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _named(service),
        drop_forbidden,
        # Not dict_tracebacks: it shows local variables, which hold positions.
        structlog.processors.format_exc_info,
        hide_credentials,
    ]
    renderer: Processor = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        if console
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    access = logging.getLogger("uvicorn.access")  # addresses may hold ids; a settled call has its own line
    access.handlers.clear()
    access.propagate = False
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def get_logger(name: str) -> FilteringBoundLogger:
    """A logger whose lines carry `logger=name`."""
    return cast(FilteringBoundLogger, structlog.get_logger(logger_name=name))


def drop_forbidden(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Take out each key that may hold a position or a credential."""
    return {key: _scrubbed(value) for key, value in event.items() if key.lower() not in FORBIDDEN_KEYS}


def hide_credentials(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Blank what looks like a credential in the text of an event and of an exception."""
    for key in ("event", "exception", "error"):
        value = event.get(key)
        if isinstance(value, str) and ("hb_" in value or "eyJ" in value or "://" in value):
            event[key] = _CREDENTIAL.sub("…", value)
    return event


def _scrubbed(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _scrubbed(v) for k, v in value.items() if str(k).lower() not in FORBIDDEN_KEYS}
    if isinstance(value, list | tuple):
        return [_scrubbed(item) for item in value]
    return value


def _named(service: str) -> Processor:
    def add(_: WrappedLogger, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event["service"] = service
        # Bound lazily, so that a module may ask for its logger before `configure`; `logger` is structlog's own argument.
        if "logger_name" in event:
            event["logger"] = event.pop("logger_name")
        return event

    return add
