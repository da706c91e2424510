"""Writes the JSON Schema files and the AsyncAPI 3 document, or with `--check` says whether they are fresh.

python -m hereabouts.schemas.generate [--check] [FOLDER]
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from .catalog import ADAPTERS, CHANNELS, PUBLISHED

_FOLDER = Path(__file__).parents[2] / "generated"
_WIRES = {"browser": "hereabouts.schemas.browser_wire", "node": "hereabouts.schemas.node_wire"}


def wire_models(module: str) -> dict[str, type[BaseModel]]:
    """The frames of one client dialect: every model that its module defines."""
    found = vars(importlib.import_module(module))
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, type) and issubclass(value, BaseModel) and value.__module__.startswith(module)
    }


def json_schemas() -> dict[str, Any]:
    """File name → JSON Schema (draft 2020-12), for what callers see and what travels on the streams."""
    files = {f"json/{name}.json": model.model_json_schema() for name, model in PUBLISHED.items()}
    files |= {f"json/{name}.json": adapter.json_schema() for name, adapter in ADAPTERS.items()}
    for wire, module in _WIRES.items():
        models = [(model, "validation") for model in wire_models(module).values()]
        _, document = models_json_schema(models, title=f"Frames of the {wire} dialect")  # type: ignore[arg-type]
        files[f"json/{wire}_wire.json"] = document
    return files


def _without_discriminator_objects(node: Any) -> Any:
    """AsyncAPI's parser takes a discriminator's name only, not OpenAPI's object with a mapping."""
    if isinstance(node, dict):
        return {
            key: value["propertyName"]
            if key == "discriminator" and isinstance(value, dict)
            else _without_discriminator_objects(value)
            for key, value in node.items()
        }
    return [_without_discriminator_objects(item) for item in node] if isinstance(node, list) else node


def asyncapi() -> dict[str, Any]:
    """The streams as an AsyncAPI 3.0 document: destination templates, never instance names."""
    names = sorted({name for channel in CHANNELS for name in channel.messages})
    _, document = models_json_schema(
        [(PUBLISHED[name], "serialization") for name in names], ref_template="#/components/schemas/{model}"
    )
    reference = {name: {"$ref": f"#/components/messages/{name}"} for name in names}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Hereabouts streams",
            "version": "1",
            "description": "What brain, browser-bridge and node-gateway say to each other over Redis streams. Every entry "
            "has the flat fields version, kind, correlation id, tenant, reply stream, expiry, traceparent and body; the "
            "schemas below are of the body.",
            "license": {"name": "MIT"},
        },
        "defaultContentType": "application/json",
        "channels": {
            channel.name: {
                "address": None,
                "title": channel.address,
                "description": channel.description,
                "messages": {name: reference[name] for name in channel.messages},
            }
            for channel in CHANNELS
        },
        "operations": {
            f"{verb}{channel.name[0].upper()}{channel.name[1:]}": {
                "action": verb,
                "channel": {"$ref": f"#/channels/{channel.name}"},
                "summary": f"{channel.sender} → {channel.address}" if verb == "send" else f"reads {channel.address}",
                "messages": [{"$ref": f"#/channels/{channel.name}/messages/{name}"} for name in channel.messages],
            }
            for channel in CHANNELS
            for verb in ("send", "receive")
        },
        "components": {
            "messages": {
                name: {
                    "name": name,
                    "contentType": "application/json",
                    "payload": {"$ref": f"#/components/schemas/{name}"},
                }
                for name in names
            },
            "schemas": _without_discriminator_objects(document["$defs"]),
        },
    }


def documents() -> dict[str, str]:
    """File name → text, all that is generated."""
    files = json_schemas() | {"asyncapi.json": asyncapi()}
    return {
        name: json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n" for name, value in files.items()
    }


def stale(folder: Path) -> list[str]:
    """The files that differ from what the models say, are missing, or belong to no model any more."""
    wanted = documents()
    present = {str(path.relative_to(folder)): path for path in folder.rglob("*.json")}
    return sorted(
        name
        for name in wanted.keys() | present.keys()
        if name not in wanted or name not in present or present[name].read_text() != wanted[name]
    )


def main(arguments: list[str]) -> int:
    """Generate, or check; the exit code."""
    check = "--check" in arguments
    folders = [Path(argument) for argument in arguments if not argument.startswith("-")]
    folder = folders[0] if folders else _FOLDER
    out_of_date = stale(folder)
    if check:
        for name in out_of_date:
            sys.stderr.write(f"not fresh: {name}; run `make generate`\n")
        return 1 if out_of_date else 0
    wanted = documents()
    for name in out_of_date:
        path = folder / name
        if name in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[name])
        else:
            path.unlink()
        sys.stdout.write(f"{'wrote' if name in wanted else 'removed'} {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
