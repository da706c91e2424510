"""What a scripted tab does with an ask: each a plain value, in the order of the script."""

import time
from dataclasses import dataclass, field
from typing import Any

from hereabouts.schemas.bus_messages import ClientState


@dataclass(frozen=True, slots=True)
class Invoke:
    """An ask as the tab received it."""

    correlation_id: str
    tool: str
    params: dict[str, Any] = field(repr=False)
    budget_ms: int
    may_prompt: bool
    wait: str
    wait_ms: int
    purpose: str | None
    traceparent: str | None

    @classmethod
    def read(cls, data: dict[str, Any]) -> "Invoke":
        """From a frame's data, as wire documents name the fields."""
        return cls(
            correlation_id=data["correlationId"],
            tool=data["name"],
            params=data["params"],
            budget_ms=data["budgetMs"],
            may_prompt=data["mayPrompt"],
            wait=data.get("wait", "no"),
            wait_ms=data.get("waitMs", 0),
            purpose=data.get("purpose"),
            traceparent=data.get("traceparent"),
        )


@dataclass(frozen=True, slots=True)
class Result:
    """Send this `result`."""

    result: Any = field(repr=False)
    progress: tuple[ClientState, ...] = ()
    """Reported first, in this order."""

    def __repr__(self) -> str:
        status = self.result.get("status") if isinstance(self.result, dict) else type(self.result).__name__
        return f"Result({status})"


@dataclass(frozen=True, slots=True)
class Error:
    """Send this `error`: the tool threw."""

    message: str


@dataclass(frozen=True, slots=True)
class Silent:
    """Send nothing, but for progress."""

    progress: tuple[ClientState, ...] = ()


@dataclass(frozen=True, slots=True)
class Raw:
    """Send this text as it is; `{correlationId}` in it is replaced by the ask's."""

    text: str


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Drop the socket without a close frame, as a lost network does."""


Reply = Result | Error | Silent | Raw | Disconnect


def grant(latitude: float, longitude: float, accuracy: float = 10.0, age_ms: int = 0, **more: Any) -> Result:
    """A position: degrees, metres, and how old it is in milliseconds; `more` are fields as the page names them."""
    return Result(
        {
            "status": "GRANTED",
            "latitude": latitude,
            "longitude": longitude,
            "accuracy": accuracy,
            "timestamp": int(time.time() * 1000) - age_ms,
            "ageMs": age_ms,
            "precision": "precise",
            **more,
        }
    )


def deny() -> Result:
    """The person said no."""
    return Result({"status": "DECLINED", "reason": "denied"}, (ClientState.PROMPT_OPEN,))


def dismiss() -> Result:
    """The person closed the prompt without deciding."""
    return Result({"status": "DECLINED", "reason": "dismissed"}, (ClientState.PROMPT_OPEN,))


def unavailable(reason: str) -> Result:
    """The page cannot tell, for a reason that the wire document lists."""
    return Result({"status": "UNAVAILABLE", "reason": reason})


def pending(reason: str = "prompt_open") -> Result:
    """The page's own timer ended first."""
    return Result({"status": "PENDING", "reason": reason})
