"""The one pydantic base for everything that crosses a border."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

# hide_input_in_errors: a validation error would otherwise carry `input_value=52.5200…` into logs and spans.
_COMMON = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True, allow_inf_nan=False)


class Model(BaseModel):
    """A message between Hereabouts' own parts: snake_case on the wire, unknown fields kept out."""

    model_config = _COMMON


class StrictModel(Model):
    """A request from outside: an unknown field is an error that names it."""

    model_config = ConfigDict(extra="forbid")


class WireModel(Model):
    """A frame of a client dialect: camelCase on the wire, snake_case in Python."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


Milliseconds = Annotated[int, Field(description="milliseconds")]
EpochMs = Annotated[int, Field(description="milliseconds since 1970-01-01T00:00:00Z")]
Metres = Annotated[float, Field(description="metres")]
Degrees = Annotated[float, Field(description="degrees, WGS 84")]
