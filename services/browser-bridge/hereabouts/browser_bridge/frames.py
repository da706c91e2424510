"""Frames as text: what comes in is parsed without trust, what goes out is written from models."""

import json

from pydantic import ValidationError
from pydantic_core import from_json

from hereabouts.edge.dialect import Send
from hereabouts.schemas.base import WireModel
from hereabouts.schemas.browser_wire import Envelope, ErrorData, FrameType


class MalformedFrame(Exception):
    """A text that is no frame. `problem` says why in fixed words, never with the text."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def parse(text: str) -> Envelope:
    """A frame's envelope.

    Raises:
        MalformedFrame: no JSON (too deep, NaN and lone surrogates included), no object, or no envelope.
    """
    try:
        content = from_json(text, allow_inf_nan=False)
    except ValueError:
        raise MalformedFrame("the frame is not JSON") from None
    if not isinstance(content, dict):
        raise MalformedFrame("the frame is not an object")
    try:
        return Envelope.model_validate(content)
    except ValidationError as problem:
        raise MalformedFrame(f"the frame's {where(problem)} is missing or wrong") from None


def where(problem: ValidationError) -> str:
    """The field that is wrong, as the client wrote it: names and indexes of ours only, never a value."""
    location = problem.errors(include_input=False, include_url=False, include_context=False)[0]["loc"]
    return ".".join(str(part) for part in location[:4]) or "data"


def frame(type: FrameType, data: WireModel | None = None, *, reply_to: str | int | None = None) -> Send:
    """A frame to the client."""
    text = f'{{"type":"{type.value}"'
    if reply_to is not None:
        text += f',"replyTo":{json.dumps(reply_to, ensure_ascii=False)}'
    if data is not None:
        text += f',"data":{data.model_dump_json(by_alias=True, exclude_none=True)}'
    return Send(text + "}")


def error(code: int, message: str, *, reply_to: str | int | None = None, reason: str | None = None) -> Send:
    """An `error` frame."""
    return frame(FrameType.ERROR, ErrorData(error_code=code, error_message=message, reason=reason), reply_to=reply_to)
