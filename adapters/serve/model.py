"""The model that answers. Any function from a turn to a stream of chunks will do: `diarist.adapters.asgi.Model`."""

from __future__ import annotations

from collections.abc import AsyncIterator

from diarist.adapters.asgi import Model
from diarist.adapters.chat import ChatChunk, ChatRequest
from diarist.adapters.models import ChatModel
from diarist.runtime.turn import Turn


def answering(model: ChatModel) -> Model:
    """Each turn is one request to a chat model. For tools and the like, give `create_app` a function of your own."""

    def ask(turn: Turn) -> AsyncIterator[ChatChunk]:
        return model.stream(ChatRequest(turn.messages))

    return ask
