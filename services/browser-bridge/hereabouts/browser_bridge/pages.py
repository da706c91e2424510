"""The page's modules at `/client/` and the chat page at `/chat`, with the headers that keep them theirs alone.

All files are read once at the start: what is served is what was installed, and no path from outside reaches the disk.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from hereabouts.runtime.settings import socket_url

CONTENT_TYPES: Mapping[str, str] = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".ts": "text/plain; charset=utf-8",
}

COMMON = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

MODULES = COMMON | {
    # Other origins import these; their tenants' allowlists decide who may connect.
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class File:
    """One file as it is served."""

    body: bytes
    content_type: str
    etag: str


def chat_headers(browser_url: str) -> dict[str, str]:
    """The chat page runs its own scripts only, is framed by nobody, and alone may ask for the position."""
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        f"connect-src 'self' {socket_url(browser_url)}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return COMMON | {
        "Content-Security-Policy": policy,
        "Permissions-Policy": "geolocation=(self), camera=(), microphone=()",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "X-Frame-Options": "DENY",
        "Cache-Control": "no-store",
    }


def page_routes(browser_url: str) -> list[BaseRoute]:
    """Routes for everything static."""
    here = files("hereabouts.browser_bridge")
    client, chat = read_folder(here / "client"), read_folder(here / "chat")
    headers = chat_headers(browser_url)

    async def module(request: Request) -> Response:
        return _answer(request, client.get(request.path_params["name"]), MODULES)

    async def page(request: Request) -> Response:
        return _answer(request, chat.get("index.html"), headers)

    async def part(request: Request) -> Response:
        return _answer(request, chat.get(request.path_params["name"]), headers)

    return [
        Route("/client/{name}", module, methods=["GET"]),
        Route("/chat", page, methods=["GET"]),
        Route("/chat/{name}", part, methods=["GET"]),
    ]


def read_folder(folder: Traversable) -> dict[str, File]:
    """The files of one folder by name; what has no content type above is not served."""
    found: dict[str, File] = {}
    for entry in folder.iterdir():
        content_type = CONTENT_TYPES.get(f".{entry.name.rpartition('.')[2]}")
        if content_type is not None and entry.is_file():
            body = entry.read_bytes()
            found[entry.name] = File(body, content_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
    return found


def _answer(request: Request, file: File | None, headers: Mapping[str, str]) -> Response:
    if file is None:
        return Response("There is nothing here.\n", 404, headers=dict(COMMON), media_type="text/plain")
    sent = {**headers, "ETag": file.etag}
    if headers.get("Cache-Control") != "no-store" and request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=sent)
    return Response(file.body, headers=sent, media_type=file.content_type)
