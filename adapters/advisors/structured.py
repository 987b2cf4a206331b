"""The advisor that makes an object of an answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Final, Generic, TypeVar

from diarist.adapters.advisors.chain import CallNext, StreamNext
from diarist.adapters.advisors.rounds import Rounds
from diarist.adapters.advisors.tools import misfits
from diarist.adapters.chat import ChatChunk, ChatRequest, ChatResponse
from diarist.adapters.extras import require
from diarist.runtime.errors import DiaristError
from diarist.runtime.messages import AssistantMessage, Message, SystemMessage, UserMessage

T = TypeVar("T")

STRUCTURED_OUTPUT: Final = "structured_output"
"""In the context of the response: the validated object."""


class StructuredOutputError(DiaristError):
    """No answer of the model fitted. `answer` is the last one; the cause says what is wrong with it."""

    def __init__(self, text: str, answer: AssistantMessage) -> None:
        super().__init__(text, outcome="executed")
        self.answer = answer


class StructuredOutputAdvisor(Generic[T]):
    """Asks for JSON that fits `type`, and puts the object into the response's context, under "structured_output".

    `type` is a pydantic model, or any type that pydantic validates. An answer that does not fit is shown to the
    model with what is wrong, at most `retries` times; then `StructuredOutputError`. Neither the instructions nor the
    misfits are remembered, if it is inside the memory, as it is by default. A stream is passed on at once, so that it
    can't be asked for again: it is judged at its end, and `ChatStream.response` has the object.
    """

    def __init__(self, type: type[T], *, retries: int = 2, order: int = 80) -> None:
        if retries < 0:
            raise ValueError("retries must be at least 0")
        self.order = order
        self._retries = retries
        self._adapter = require("pydantic", "tools", "StructuredOutputAdvisor").TypeAdapter(type)
        schema = json.dumps(self._adapter.json_schema(), ensure_ascii=False)
        self._instruction = SystemMessage(
            "Answer with one JSON value and nothing else: no explanation, no Markdown. It must fit this schema:\n"
            + schema
        )

    async def call(self, request: ChatRequest, next: CallNext) -> ChatResponse:
        instructed = self._instructed(request)
        attempt, steps, left = instructed, tuple[Message, ...](), self._retries
        while True:
            response = await next(attempt)
            steps += response.steps
            if response.message.tool_calls:  # of tools that the caller carries out himself: no answer yet
                return replace(response, steps=steps)
            try:
                found = self._parsed(response.message)
            except ValueError as error:
                if not left:
                    raise _misfit(response.message) from error
                attempt = _corrected(instructed, response.message, error)
                left -= 1
            else:
                context = {**response.context, STRUCTURED_OUTPUT: found}
                return replace(response, context=context, steps=steps)

    async def stream(self, request: ChatRequest, next: StreamNext) -> AsyncIterator[ChatChunk]:
        rounds = Rounds()
        async for chunk in next(self._instructed(request)):
            rounds.add(chunk)
            yield chunk
        rounds.end()
        message = rounds.messages()[-1]
        if message.tool_calls:
            return
        try:
            found = self._parsed(message)
        except ValueError as error:
            raise _misfit(message) from error
        yield ChatChunk(context={STRUCTURED_OUTPUT: found})

    def _instructed(self, request: ChatRequest) -> ChatRequest:
        return replace(request, messages=with_system(request.messages, self._instruction))

    def _parsed(self, message: AssistantMessage) -> T:
        found: T = self._adapter.validate_json(json_in(message.text))
        return found


def with_system(messages: Sequence[Message], added: SystemMessage) -> tuple[Message, ...]:
    """The messages with one more system message, behind those that stand first."""
    place = 0
    while place < len(messages) and isinstance(messages[place], SystemMessage):
        place += 1
    return (*messages[:place], added, *messages[place:])


def json_in(text: str) -> str:
    """The JSON in an answer, which models wrap into Markdown or a sentence; the text itself if there is none."""
    decoder = json.JSONDecoder()
    stripped = text.strip()
    for place, character in enumerate(stripped):
        if character in "{[" or place == 0:
            try:
                _, end = decoder.raw_decode(stripped, place)
            except ValueError:
                continue
            return stripped[place:end]
    return stripped


def _corrected(request: ChatRequest, answer: AssistantMessage, error: ValueError) -> ChatRequest:
    """The question anew, with the misfit and what is wrong with it."""
    complaint = UserMessage(f"That does not fit the schema ({misfits(error)}). Answer again, with the JSON only.")
    said = [answer] if answer.text.strip() else []
    return replace(request, messages=(*request.messages, *said, complaint))


def _misfit(answer: AssistantMessage) -> StructuredOutputError:
    return StructuredOutputError("the model's answer does not fit the schema", answer)
