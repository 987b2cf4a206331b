"""The app, put together."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from diarist.adapters.asgi import Model, exception_handlers, lifespan
from diarist.adapters.models import ScriptedModel
from diarist.adapters.serve import answers, conversations, operations, page
from diarist.adapters.serve.body_limit import BodyLimit
from diarist.adapters.serve.metrics import MemoryCollector, RequestMetrics
from diarist.adapters.serve.model import answering
from diarist.adapters.serve.settings import ServeSettings
from diarist.runtime.memory import ChatMemory

DESCRIPTION = """A small chat backend. Answers are streamed as server-sent events; they go on when the client leaves,
and are followed again under `/stream`. A conversation belongs to the namespace of the token that made it."""


def create_app(
    memory: ChatMemory | str, settings: ServeSettings | None = None, *, model: Model | None = None
) -> FastAPI:
    """The app over a memory that its caller opens and drains, or over a store's URL.

    `model`: what answers; without it the built-in one, which needs no network.
    """
    settings = settings or ServeSettings()
    app = FastAPI(
        title="Diarist",
        description=DESCRIPTION,
        version=version("diarist"),
        lifespan=lifespan(memory) if isinstance(memory, str) else None,
        exception_handlers=exception_handlers,
    )
    if not isinstance(memory, str):
        app.state.diarist = memory
    registry = CollectorRegistry()
    registry.register(MemoryCollector(lambda: app.state.diarist.stats()))
    app.state.settings = settings
    app.state.model = model or answering(ScriptedModel(delay=0.03))
    app.state.registry = registry
    for router in (answers.router, conversations.router, operations.router, page.router):
        app.include_router(router)
    app.add_middleware(BodyLimit, limit=settings.body_bytes)
    app.add_middleware(RequestMetrics, registry=registry)
    return app
