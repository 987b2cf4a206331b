"""A proxy that gives any OpenAI-compatible server a memory: the upstream's bytes go to the client untouched.

    python examples/proxy.py --upstream http://localhost:8000/v1 [--store sqlite:///chat.db] [--port 8003]

    curl -N localhost:8003/v1/chat/completions -H 'x-conversation: ann' -H 'content-type: application/json' \
        -d '{"model": "any", "messages": [{"role": "user", "content": "Hello"}]}'

The client sends only what is new; the proxy puts the history before it. `Authorization` is handed on.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from diarist import Turn
from diarist.adapters.asgi import exception_handlers, lifespan, memory_of, raw_response


async def completions(request: Request) -> Response:
    """One turn: record what the upstream streams, as it streams it."""
    body = await request.json()
    id = request.headers.get("x-conversation")
    if id is None:
        raise HTTPException(400, "the header x-conversation names the conversation")
    client: httpx.AsyncClient = request.app.state.client
    told = {"authorization": request.headers["authorization"]} if "authorization" in request.headers else {}

    async def ask(turn: Turn) -> AsyncIterator[bytes]:
        sent = client.build_request(
            "POST",
            "chat/completions",
            json={**body, "messages": turn.to_openai(), "stream": True},
            headers={**told, "accept-encoding": "identity"},
        )
        response = await client.send(sent, stream=True)
        if response.is_error:
            text = (await response.aread()).decode("utf-8", "replace")
            await response.aclose()
            raise HTTPException(response.status_code, text)
        return reads_of(response)

    turn = memory_of(request).conversation(id).turn(*body["messages"], on_error="keep_user")
    return raw_response(turn, ask, encoding="sse", format="openai_chat")


async def reads_of(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The body as it comes from the network; the connection is given back however it ends."""
    try:
        async for data in response.aiter_raw():
            yield data
    finally:
        await response.aclose()


def create_app(store: str, upstream: str) -> Starlette:
    @asynccontextmanager
    async def life(app: Starlette) -> AsyncGenerator[None, None]:
        async with httpx.AsyncClient(base_url=upstream, timeout=120) as app.state.client, lifespan(store)(app):
            yield

    routes = [Route("/v1/chat/completions", completions, methods=["POST"])]
    return Starlette(routes=routes, lifespan=life, exception_handlers=exception_handlers)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--store", default="sqlite:///chat.db")
    parser.add_argument("--port", type=int, default=8003)
    options = parser.parse_args()
    uvicorn.run(create_app(options.store, options.upstream), port=options.port)
