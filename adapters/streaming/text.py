"""Format `text`: chunks are the text itself. Its end is the end of the stream, so that is complete."""

from __future__ import annotations

import codecs
from typing import ClassVar

from diarist.adapters.streaming.chunks import Fields, fields
from diarist.adapters.streaming.core import Choice, StreamAggregate
from diarist.runtime.messages import Status


class TextAggregate(StreamAggregate):
    """Strings, UTF-8 bytes split anywhere, and objects with a string under `text`, `content` or `delta`."""

    unfinished: ClassVar[Status] = "complete"

    def __init__(self) -> None:
        super().__init__()
        self._choice = Choice()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def _take_other(self, chunk: object) -> bool:
        if isinstance(chunk, str):
            self._choice.pieces.text(chunk)
            return True
        if isinstance(chunk, (bytes, bytearray)):
            self._choice.pieces.text(self._decoder.decode(chunk))
            return True
        found = fields(chunk)
        return found is not None and self._take(found)

    def _take(self, chunk: Fields) -> bool:
        if error := chunk.get("error"):
            self._fail(error)
            return True
        for key in ("text", "content", "delta"):
            if isinstance(text := chunk.get(key), str):
                self._choice.pieces.text(text)
                return True
        return False

    def _choices(self) -> list[Choice]:
        return [self._choice]

    def _is_complete(self) -> bool:
        return False
