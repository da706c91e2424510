"""`/livez`, `/readyz` with causes, `/metrics`: the same in each service."""

from collections.abc import Callable, Mapping

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Check = Callable[[], str | None]
"""Why this part is not ready, or None. Looks at state that is there already; never waits."""


def health_routes(service: str, checks: Mapping[str, Check], *, registry: CollectorRegistry = REGISTRY) -> list[Route]:
    """Routes for probes and scrapes.

    `/readyz` answers 200 while each check says None, else 503 with the causes by name.
    """

    async def livez(_: Request) -> Response:
        return JSONResponse({"service": service, "live": True})

    async def readyz(_: Request) -> Response:
        causes = {name: problem for name, check in checks.items() if (problem := check()) is not None}
        return JSONResponse(
            {"service": service, "ready": not causes, "causes": causes}, status_code=503 if causes else 200
        )

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return [
        Route("/livez", livez, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
    ]
