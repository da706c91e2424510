"""A small service process to try the runtime on."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hereabouts.runtime.processes import Process

SERVICE = """
import asyncio, os, sys
from contextlib import asynccontextmanager
from pathlib import Path
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from hereabouts.runtime import logs
from hereabouts.runtime.health import health_routes
from hereabouts.runtime.serving import serve
from hereabouts.runtime.settings import ServiceSettings

class Settings(ServiceSettings):
    service = "sample"

open_work = asyncio.Event()
story = Path(os.environ["STORY"])

def tell(word):
    with story.open("a") as file:
        file.write(word + "\\n")

@asynccontextmanager
async def lifespan(app):
    if os.environ.get("HANG") == "start":
        tell("hanging")
        await asyncio.Event().wait()
    if os.environ.get("FAIL") == "start":
        raise RuntimeError("no bus here")
    tell("started")
    yield
    tell("stopped")

async def slow(request):
    tell("request")
    await open_work.wait()
    return PlainTextResponse("done")

async def drain():
    tell("draining")
    if os.environ.get("HANG") == "drain":
        await asyncio.Event().wait()
    open_work.set()

settings = Settings()
logs.configure(settings, "sample")
app = Starlette(lifespan=lifespan, routes=[Route("/slow", slow), *health_routes("sample", {"bus": lambda: os.environ.get("CAUSE")})])
serve(app, settings, drain=drain)
"""

StartSample = Callable[..., Process]


@pytest.fixture
def story(tmp_path: Path) -> Path:
    """What the sample service did, a word a line."""
    return tmp_path / "story.txt"


@pytest.fixture
def sample(tmp_path: Path, story: Path) -> Iterator[StartSample]:
    """Starts the sample service; it is ended with the test."""
    (tmp_path / "sample_service.py").write_text(SERVICE)
    started: list[Process] = []

    def start(*, ready: bool = True, **environment: str) -> Process:
        process = Process(
            "sample",
            "sample_service",
            environment=dict(os.environ)
            | {"PYTHONPATH": str(tmp_path), "STORY": str(story), "HEREABOUTS_DATA_DIR": str(tmp_path / "data")}
            | environment,
            log_file=tmp_path / f"sample-{len(started)}.log",
        )
        process.start()
        started.append(process)
        if ready:
            process.wait_ready(30)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
