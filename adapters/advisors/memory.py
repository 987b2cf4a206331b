"""The advisor that gives a model its conversation, and keeps what was said."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Unpack, cast

from diarist.adapters.advisors.chain import CallNext, StreamNext
from diarist.adapters.advisors.known import new_messages
from diarist.adapters.chat import ChatChunk, ChatRequest, ChatResponse
from diarist.runtime.errors import InvalidIdError, NotFoundError
from diarist.runtime.interruptible import Interruptible
from diarist.runtime.memory import ChatMemory
from diarist.runtime.messages import AssistantMessage, Message
from diarist.runtime.options import TurnOptions, turn_settings
from diarist.runtime.recorder import close_stream, says_something
from diarist.runtime.turn import Turn

CONVERSATION_ID: Final = "chat_memory_conversation_id"
NAMESPACE: Final = "chat_memory_namespace"
OWNER: Final = "chat_memory_owner"
IDEMPOTENCY_KEY: Final = "chat_memory_idempotency_key"
TURN: Final = "chat_memory_turn"
"""In the context of what runs inside: the running `Turn`. A loop of tool calls adds its rounds to it."""
RECEIPT: Final = "chat_memory_receipt"
"""In the context of the response: the `Receipt` of the turn, if anything was stored."""


class ChatMemoryAdvisor:
    """One turn of a conversation spans each request.

    The conversation is named by the request's context, under `chat_memory_conversation_id`; there is no default:
    `InvalidIdError`. The context may also have `chat_memory_owner`, `chat_memory_idempotency_key`, and
    `chat_memory_namespace`, which goes before the advisor's own. They are the application's to set, never a user's.

    What is inside (higher orders) gets the conversation's messages with the request's new ones behind them, system
    messages first. All new messages are stored, system messages too, with the answer, and with the rounds of tool
    calls inside; what advisors inside add to the prompt is not. Clients may send the history again: what the
    conversation knows is neither sent nor stored twice.

    `turn_options` are those of `Conversation.turn`; they decide what is kept of a request that fails or is left.
    """

    def __init__(
        self, memory: ChatMemory, *, order: int = 0, namespace: str = "", **turn_options: Unpack[TurnOptions]
    ) -> None:
        turn_settings(turn_options)  # a wrong option fails here, and not with the first request
        self.order = order
        self._memory = memory
        self._namespace = namespace
        self._options = turn_options

    async def call(self, request: ChatRequest, next: CallNext) -> ChatResponse:
        asked = _Asked(self, request)
        async with asked.turn as turn:
            if turn.replayed:
                response = ChatResponse(_replayed(turn), request.context)
            else:
                response = await Interruptible(next(asked.inner()), turn.interruption)
                if says_something(response.message):
                    await turn.add(response.message)
        return replace(response, context=asked.outer(response.context))

    async def stream(self, request: ChatRequest, next: StreamNext) -> AsyncIterator[ChatChunk]:
        asked = _Asked(self, request)
        async with asked.turn as turn:
            if turn.replayed:
                yield ChatChunk(_replayed(turn).text)
            else:
                rounds = _Rounds(next(asked.inner()))
                while not rounds.ended:
                    async for chunk in turn.record(rounds):
                        yield chunk
                    if (result := rounds.take()) is not None:
                        if result.message is not None:
                            await turn.add(result.message)
                        yield result
        yield ChatChunk(context=asked.outer({}))

    def turn_of(self, context: Mapping[str, Any], messages: Sequence[Message]) -> Turn:
        """The turn for a request."""
        if CONVERSATION_ID not in context:
            raise InvalidIdError(f"the request's context has no {CONVERSATION_ID!r}, and there is no default one")
        chat = self._memory.conversation(
            context[CONVERSATION_ID], namespace=context.get(NAMESPACE, self._namespace), owner=context.get(OWNER)
        )
        options = self._options
        if IDEMPOTENCY_KEY in context:
            options = cast("TurnOptions", {**options, "idempotency_key": context[IDEMPOTENCY_KEY]})
        return chat.turn(*messages, **options)


class _Asked:
    """One request on its way through the advisor."""

    def __init__(self, advisor: ChatMemoryAdvisor, request: ChatRequest) -> None:
        self._request = request
        self.turn = advisor.turn_of(request.context, request.messages)
        self.turn.only = new_messages

    def inner(self) -> ChatRequest:
        """What goes on: history before the prompt, and the turn in the context."""
        context = {**self._request.context, TURN: self.turn}
        return replace(self._request, messages=self.turn.messages, context=context)

    def outer(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """What goes back: the turn is over."""
        added = {key: value for key, value in context.items() if key != TURN}
        try:
            return {**added, RECEIPT: self.turn.receipt}
        except NotFoundError:
            return added


class _Rounds:
    """A stream cut into the rounds of a turn: its iteration ends with each answer of the model, and goes on with the
    next round when it is iterated again."""

    def __init__(self, stream: AsyncIterator[ChatChunk]) -> None:
        self._stream = stream
        self._between: ChatChunk | None = None
        self.ended = False

    def __aiter__(self) -> _Rounds:
        return self

    async def __anext__(self) -> ChatChunk:
        try:
            chunk = await self._stream.__anext__()
        except BaseException:
            self.ended = True
            raise
        if chunk.message is None and not chunk.ends_round:
            return chunk
        self._between = chunk
        raise StopAsyncIteration

    def take(self) -> ChatChunk | None:
        """The chunk that ended the last round."""
        between, self._between = self._between, None
        return between

    async def aclose(self) -> None:
        await close_stream(self._stream, self._stream)


def _replayed(turn: Turn) -> AssistantMessage:
    try:
        return turn.answer
    except NotFoundError:  # the turn ended normally, and the model had said nothing
        return AssistantMessage("")
