"""A chat backend with FastAPI: answers as server-sent events, a history, a stop button.

    python examples/fastapi_app.py [--store sqlite:///chat.db] [--port 8001]

    curl -N localhost:8001/chat/ann -H 'content-type: application/json' -d '{"text": "Hello"}'
    curl localhost:8001/chat/ann
    curl -X POST localhost:8001/chat/ann/stop

A client that disconnects cancels its turn: the answer so far is kept. A second question waits for the first answer.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from diarist import Turn, UserMessage
from diarist.adapters import ChatChunk, ChatRequest, ScriptedModel
from diarist.adapters.asgi import TurnResponse, exception_handlers, lifespan, sse_response
from diarist.adapters.asgi.fastapi import Memory

model = ScriptedModel()  # stands for OpenAIChatModel("gpt-5-mini"), or for your vendor's SDK


def answer(turn: Turn) -> AsyncIterator[ChatChunk]:
    """What the model streams; the turn knows the history and the question."""
    return model.stream(ChatRequest(turn.messages))


class Question(BaseModel):
    text: str


def create_app(store: str) -> FastAPI:
    app = FastAPI(lifespan=lifespan(store), exception_handlers=exception_handlers)

    @app.post("/chat/{id}", response_class=TurnResponse)
    async def ask(id: str, question: Question, memory: Memory) -> TurnResponse:  # pyright: ignore[reportUnusedFunction]
        return sse_response(memory.conversation(id).turn(UserMessage(question.text)), answer)

    @app.get("/chat/{id}")
    async def history(id: str, memory: Memory) -> list[dict[str, Any]]:  # pyright: ignore[reportUnusedFunction]
        return [message.to_dict() for message in await memory.get(id)]

    @app.post("/chat/{id}/stop")
    async def stop(id: str, memory: Memory) -> bool:  # pyright: ignore[reportUnusedFunction]
        return await memory.conversation(id).interrupt()

    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", default="sqlite:///chat.db")
    parser.add_argument("--port", type=int, default=8001)
    options = parser.parse_args()
    uvicorn.run(create_app(options.store), port=options.port)
