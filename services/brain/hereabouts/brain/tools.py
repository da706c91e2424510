"""Arguments are checked here before any client is asked: our own tool by its model, a client's by the client's schema.

Clients' schemas are untrusted. They are compiled by jsonschema-rs: no reference is fetched, and a pattern may not
backtrack without bound (Python's `re` would let a page stop the whole process with one).
"""

import json
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import jsonschema_rs
from pydantic import ValidationError

from hereabouts.schemas.errors import Conflict, InvalidRequest
from hereabouts.schemas.records import ClientRecord
from hereabouts.schemas.tools import LOCATION_GET_TOOL, LocationArguments, Tool

MAX_PROBLEMS = 5
"""Problems named in one answer: an agent corrects a few at a time."""

MAX_NAMES = 20
"""Property names listed in an error."""

MAX_COMPILED = 1_000
"""Compiled schemas kept, by content: pages of one app share theirs."""

BACKTRACK_LIMIT = 100_000
"""Steps that a pattern may take: about a millisecond."""

_MEMBERS = ("literal[", "constrained-", "float")
"""How pydantic names the members of a union in an error's place."""

_HIDDEN = "the value"
_UNKNOWN = {"additionalProperties", "unevaluatedProperties", "propertyNames", "patternProperties"}

BUILT_IN = (LOCATION_GET_TOOL,)
"""The tools that Hereabouts defines."""


def location_arguments(arguments: dict[str, Any]) -> LocationArguments:
    """The arguments of `location_get`.

    Raises:
        InvalidRequest: names each field and what is wrong with it, never its value.
    """
    try:
        return LocationArguments.model_validate(arguments, strict=True)
    except ValidationError as problem:
        raise invalid(problem, within="arguments") from None


def invalid(problem: ValidationError, *, within: str = "") -> InvalidRequest:
    """A model's complaints as our error: where and what, without the input."""
    seen: dict[str, str] = {}
    for error in problem.errors(include_url=False, include_context=False, include_input=False):
        # A union repeats its field once for each member, with the member's name behind it.
        field, *members = [str(part)[:64] for part in error["loc"]] or [""]
        path = [field, *(part for part in members if not part.startswith(_MEMBERS))] if field else []
        at = ".".join([within, *path] if within else path) or "body"
        text = error["msg"].removeprefix("Value error, ")
        seen[at] = f"{seen[at]}, or: {text}" if at in seen else text
    return invalid_fields(seen)


def invalid_fields(problems: dict[str, str]) -> InvalidRequest:
    """One error for several fields."""
    named = [{"at": at, "problem": text} for at, text in list(problems.items())[:MAX_PROBLEMS]]
    sentence = "; ".join(f"`{entry['at']}`: {entry['problem']}" for entry in named)
    return InvalidRequest(problem=f"The request is not valid. {sentence}.", problems=named)


def tool_of(client: ClientRecord, name: str) -> Tool | None:
    """A client's tool of this name."""
    return next((tool for tool in client.tools if tool.name == name), None)


def each_name_once(clients: Iterable[ClientRecord]) -> list[Tool]:
    """All tools of these clients, the first one's word for each name."""
    found: dict[str, Tool] = {}
    for client in clients:
        for tool in client.tools:
            found.setdefault(tool.name, tool)
    return list(found.values())


def _unknown_property(tool: Tool) -> str:
    """Says what may stand there instead, as far as the schema's first level tells."""
    known = tool.params_schema.get("properties")
    names = ", ".join(str(name)[:64] for name in list(known)[:MAX_NAMES]) if isinstance(known, dict) else ""
    return (
        f"an unknown property stands here; `{tool.name}` takes {names}" if names else "an unknown property stands here"
    )


class ArgumentChecks:
    """Checks arguments against clients' schemas; compiled ones are kept by content."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[str, jsonschema_rs.Validator] = OrderedDict()

    def check(self, tool: Tool, arguments: dict[str, Any]) -> None:
        """Raise unless the arguments fit.

        Raises:
            InvalidRequest: they do not; says where, by which keyword of the schema.
            Conflict: the client's schema is itself invalid, so nothing can be checked.
        """
        if not tool.params_schema:
            return
        problems: dict[str, str] = {}
        for error in self._validator(tool).iter_errors(arguments):
            at = ".".join(["arguments", *(str(part)[:64] for part in error.instance_path)])
            keyword = str(error.schema_path[-1]) if error.schema_path else ""
            text = _unknown_property(tool) if keyword in _UNKNOWN else error.message[:200]
            problems.setdefault(at, text)
            if len(problems) == MAX_PROBLEMS:
                break
        if problems:
            raise invalid_fields(problems)

    def _validator(self, tool: Tool) -> jsonschema_rs.Validator:
        content = json.dumps(tool.params_schema, sort_keys=True, separators=(",", ":"))
        validator = self._compiled.get(content)
        if validator is None:
            try:
                validator = jsonschema_rs.Draft202012Validator(
                    content,
                    mask=_HIDDEN,
                    offline=True,
                    pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT),
                )
            except ValueError:  # ValidationError and ReferencingError are both
                raise Conflict(
                    problem=f"The parameter schema that the client registered for `{tool.name}` is not a valid JSON "
                    "Schema (2020-12), so arguments cannot be checked. The page must register the tool again."
                ) from None
            self._compiled[content] = validator
            if len(self._compiled) > MAX_COMPILED:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(content)
        return validator
