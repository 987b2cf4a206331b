"""A chat over WebSockets with Starlette: a text frame in is a question, text frames out are its answer.

    python examples/websocket_app.py [--store sqlite:///chat.db] [--port 8002]

    python -m websockets ws://localhost:8002/chat/ann

`{"end": …}` closes each answer and says how it ended; the frame `/stop` stops the running one. When the socket closes
in the middle of an answer, what came of it is kept.
"""

from __future__ import annotations

import argparse

import anyio
import uvicorn
from anyio.streams.memory import MemoryObjectReceiveStream
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from diarist import Conversation, TurnInterruptedError, UserMessage
from diarist.adapters import ChatRequest, ScriptedModel
from diarist.adapters.asgi import lifespan, memory_of

model = ScriptedModel()


async def chat(socket: WebSocket) -> None:
    """Questions are answered in their order, while the socket is read: so a stop, or the end, is heard at once."""
    conversation = memory_of(socket).conversation(socket.path_params["id"])
    await socket.accept()
    into, questions = anyio.create_memory_object_stream[str](100)
    async with into, questions, anyio.create_task_group() as group:
        group.start_soon(answer_all, socket, conversation, questions)
        async for text in socket.iter_text():
            if text == "/stop":
                await conversation.interrupt()
            else:
                await into.send(text)
        group.cancel_scope.cancel()  # the socket is closed: a running turn ends by its `on_cancel` policy


async def answer_all(
    socket: WebSocket, conversation: Conversation, questions: MemoryObjectReceiveStream[str]
) -> None:
    async for text in questions:
        try:
            async with conversation.turn(UserMessage(text)) as turn:
                async for chunk in turn.record(model.stream(ChatRequest(turn.messages))):
                    if chunk.text:
                        await socket.send_text(chunk.text)
            await socket.send_json({"end": turn.answer.status, "version": turn.receipt.version})
        except TurnInterruptedError:
            await socket.send_json({"end": "stopped"})


def create_app(store: str) -> Starlette:
    return Starlette(routes=[WebSocketRoute("/chat/{id}", chat)], lifespan=lifespan(store))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", default="sqlite:///chat.db")
    parser.add_argument("--port", type=int, default=8002)
    options = parser.parse_args()
    uvicorn.run(create_app(options.store), port=options.port)
