"""Tool specifications as clients register them, and the tools that Hereabouts itself defines."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from .base import Milliseconds, Model, StrictModel
from .limits import MAX_LABEL_CHARS

TOOL_NAME_PATTERN = r"^[A-Za-z0-9_.\-]{1,128}$"
ToolName = Annotated[str, Field(pattern=TOOL_NAME_PATTERN)]

LOCATION_GET = "location_get"
NODE_LOCATION_COMMAND = "location.get"

MAX_DESCRIPTION_CHARS = 4_000
"""A description is read by a model at each turn; a longer one is a document."""


class Tool(Model):
    """A tool as the directory and the agents see it."""

    name: ToolName
    description: str = Field(default="", max_length=MAX_DESCRIPTION_CHARS)
    params_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None


class LocationArguments(StrictModel):
    """What an agent may say with `location_get`. All optional."""

    desired_accuracy: Literal["coarse", "balanced", "precise"] | Annotated[float, Field(gt=0, le=1_000_000)] | None = (
        Field(
            default=None,
            description="how exact the position should be: coarse (3,000 m), balanced (100 m), precise (25 m), or metres. A wish, not a gate",
        )
    )
    max_age_ms: Milliseconds | None = Field(
        default=None,
        ge=0,
        le=24 * 3_600_000,
        description="how old the position may be, in milliseconds; 0 accepts only a new one. Left out: a new one is "
        "looked for, and one up to 15,000 ms old is accepted",
    )

    @field_validator("desired_accuracy", mode="before")
    @classmethod
    def _no_booleans(cls, value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError("desired_accuracy is coarse, balanced, precise or a number of metres")
        return value


WANTED_ACCURACY_M = {"coarse": 3_000.0, "balanced": 100.0, "precise": 25.0}


def wanted_accuracy_m(desired: str | float | None) -> float | None:
    """The radius in metres that a wish names, or None."""
    if desired is None:
        return None
    return WANTED_ACCURACY_M[desired] if isinstance(desired, str) else float(desired)


LOCATION_GET_DESCRIPTION = (
    "Get the user's current location from their own browser or device. Call it only when the answer needs the place and "
    "the user expects it. The user decides: the result's `status` is GRANTED (with latitude, longitude and accuracy), "
    "DECLINED, PENDING or UNAVAILABLE. DECLINED and UNAVAILABLE: do not retry. PENDING: you may call again after a short "
    "wait, or go on without the location. `accuracy` is a radius in metres, not a point: do not report more precision."
)

LOCATION_GET_TOOL = Tool(
    name=LOCATION_GET,
    description=LOCATION_GET_DESCRIPTION,
    params_schema=LocationArguments.model_json_schema(),
)

MAX_PROMPT_CHARS = MAX_LABEL_CHARS
