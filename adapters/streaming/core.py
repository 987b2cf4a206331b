"""The core of all stream formats: counting, what is set once, usage, errors, status, and the message."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from diarist.adapters.streaming.chunks import fields, plain, word
from diarist.adapters.streaming.decoding import DONE, Payload, StreamEnd
from diarist.adapters.streaming.pieces import Extras, Pieces, built, is_usual, joined
from diarist.runtime.messages import AssistantMessage, Status
from diarist.runtime.parts import ReasoningPart, TextPart
from diarist.runtime.values import FrozenDict

Error = BaseException | Mapping[str, Any] | None


class Choice:
    """One answer under construction; most streams have one."""

    __slots__ = ("extras", "finish_reason", "pieces", "refusal")

    def __init__(self) -> None:
        self.pieces = Pieces()
        self.refusal: list[str] = []
        self.finish_reason: str | None = None
        self.extras: Extras = {}


class StreamAggregate(ABC):
    """What all formats share. A format says how a chunk is read, when all came, and what the choices are."""

    unfinished: ClassVar[Status] = "truncated"
    """The status of a stream that ended and had not told its end."""

    def __init__(self) -> None:
        self.seen = 0
        self.skipped = 0
        self._id: str | None = None
        self._model: str | None = None
        self._usage: Extras = {}
        self._extras: Extras = {}
        self._failed = False
        self._error: FrozenDict | None = None
        self._end = StreamEnd()

    def add(self, chunk: object) -> None:
        """Take the next chunk. Never raises: what makes no sense is counted in `skipped`."""
        self.seen += 1
        kind: Any = type(chunk)
        try:
            if kind is Payload:
                self._end = cast("Payload", chunk).end
            is_mapping = kind is dict or kind is Payload
            if not (self._take(chunk) if is_mapping else self._take_other(chunk)):
                self.skipped += 1
        except Exception:
            # The caller's stream goes on whatever a chunk of it holds: objects may raise anything when read.
            self.skipped += 1

    def message(self, *, cancelled: bool = False, error: Error = None) -> AssistantMessage:
        """The message so far, of the lowest choice."""
        return self.messages(cancelled=cancelled, error=error)[0]

    def messages(self, *, cancelled: bool = False, error: Error = None) -> tuple[AssistantMessage, ...]:
        """One message per choice, by index; an empty one if nothing came."""
        cancelled = cancelled or isinstance(error, (asyncio.CancelledError, GeneratorExit))
        raised = None if isinstance(error, (asyncio.CancelledError, GeneratorExit)) else error
        status = self._status(cancelled, raised)
        problem = self._error if self._failed or raised is None else error_object(raised)
        return tuple(self._built(choice, status, problem) for choice in self._choices() or [Choice()])

    @abstractmethod
    def _take(self, chunk: Any) -> bool:
        """Read one chunk; False if it is nothing that this format knows."""

    @abstractmethod
    def _choices(self) -> list[Choice]:
        """The choices seen, by index."""

    @abstractmethod
    def _is_complete(self) -> bool:
        """Whether the stream has told its end."""

    def _take_other(self, chunk: object) -> bool:
        """Read a chunk that is no plain dict: an SDK's object, or the sentinel as text."""
        found = fields(chunk)
        if found is not None:
            return self._take(found)
        is_done = isinstance(chunk, (str, bytes)) and chunk in (DONE, DONE.encode())
        self._end.done = self._end.done or is_done
        return is_done

    def _identify(self, response_id: object, model: object) -> None:
        """Id and model are set once; empty ones are none."""
        if self._id is None:
            self._id = word(response_id)
        if self._model is None:
            self._model = word(model)

    def _count(self, usage: object) -> None:
        """Usage is a running total: later values replace, nulls and missing keys erase nothing."""
        if found := fields(usage):
            merge(self._usage, found)

    def _fail(self, error: object) -> None:
        """The first error object of a stream stays; a plain text becomes its `message`."""
        self._failed = True
        if self._error is None:
            self._error = error_object(error)

    def _status(self, cancelled: bool, error: Error) -> Status:
        if self._failed or error is not None:
            return "error"
        if self._is_complete():
            return "complete"
        return "cancelled" if cancelled else self.unfinished

    def _built(self, choice: Choice, status: Status, error: FrozenDict | None) -> AssistantMessage:
        parts, calls = built(choice.pieces)
        return AssistantMessage(
            joined(part.text for part in parts if isinstance(part, TextPart)),
            calls,
            joined(part.text for part in parts if isinstance(part, ReasoningPart)),
            refusal=joined(choice.refusal) or None,
            finish_reason=choice.finish_reason,
            usage=self._usage or None,
            model=self._model,
            response_id=self._id,
            status=status,
            error=error,
            layout=() if is_usual(parts, len(calls)) else parts,
            extras={**self._extras, **choice.extras},
        )


def merge(total: Extras, update: Mapping[str, Any]) -> None:
    """Put the values that are not null over the old ones, key by key, also in nested details."""
    for key, value in update.items():
        if value is None or type(key) is not str:
            continue
        old, new = total.get(key), plain(value)
        if isinstance(old, FrozenDict) and isinstance(new, FrozenDict):
            sent = {name: item for name, item in new.items() if item is not None or name not in old}
            new = FrozenDict({**old, **sent})
        if new is not None:
            total[key] = new


def error_object(error: object) -> FrozenDict | None:
    """The vendor's error object: as sent, or out of the exception that an SDK made of it.

    OpenAI, Anthropic and Google put the decoded body on their exceptions (`body`, `details`), botocore under
    `response["Error"]`. Any other exception is told by its type and text.
    """
    if isinstance(error, BaseException):
        return _exception_object(error)
    kept = plain(error)
    if isinstance(kept, FrozenDict):
        return kept or None
    return FrozenDict({"message": kept if isinstance(kept, str) else str(kept)}) if kept else None


def _exception_object(error: BaseException) -> FrozenDict | None:
    for place in ("body", "details", "response"):
        body = fields(getattr(error, place, None))
        if place == "response" and body is not None:
            body = body.get("Error")
        if body := fields(body):
            inner = body.get("error")
            return error_object(inner if inner and (fields(inner) or word(inner)) else body)
    try:
        text = str(error)
    except Exception:
        text = ""
    return FrozenDict({"type": type(error).__name__, "message": text})
