"""For who runs the server: health, readiness, metrics."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Depends, Request, Response, status
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from diarist.adapters.asgi.fastapi import Memory
from diarist.adapters.serve.access import Settings, namespace_of
from diarist.adapters.serve.schemas import Health
from diarist.runtime.errors import ClosedError, DiaristError

router = APIRouter(tags=["operations"])


@router.get("/health", summary="Does the process live?")
async def health() -> Health:
    return Health(status="ok")


@router.get("/ready", summary="Can it work?", responses={503: {"model": Health}})
async def ready(memory: Memory, settings: Settings, response: Response) -> Health:
    """503 while it drains, and when the store does not answer in time."""
    try:
        async with asyncio.timeout(settings.ready_seconds):
            await memory.conversations(limit=1)
    except ClosedError:
        detail = "draining"
    except (DiaristError, TimeoutError):
        detail = "the store does not answer"
    else:
        return Health(status="ready")
    response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    return Health(status="unavailable", detail=detail)


@router.get("/metrics", response_class=Response, dependencies=[Depends(namespace_of)], summary="For Prometheus")
async def metrics(request: Request) -> Response:
    """Counts only, no ids and no texts. With a token where the server asks for one."""
    registry: CollectorRegistry = request.app.state.registry
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
