"""The port of stream formats: what makes one message of a stream's chunks.

Formats are found by name through the entry point group `diarist.aggregates`; the object there is a class
without constructor arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from diarist.runtime.messages import AssistantMessage


class Aggregate(Protocol):
    """One stream of chunks on its way to a message. Chunks are read, never changed and never kept."""

    @property
    def seen(self) -> int:
        """Chunks that were added."""
        ...

    @property
    def skipped(self) -> int:
        """Those of them that made no sense in this format."""
        ...

    def add(self, chunk: object) -> None:
        """Take the next chunk. Never raises, whatever the chunk is."""
        ...

    def message(
        self, *, cancelled: bool = False, error: BaseException | Mapping[str, Any] | None = None
    ) -> AssistantMessage:
        """The message so far; call it whenever and as often as you like.

        `cancelled`: the consumer left before the stream's end; that counts only if the stream had not told
        its own end before. `error`: the exception that the stream raised, or the vendor's error object; an
        error inside the stream wins.
        """
        ...

    def messages(
        self, *, cancelled: bool = False, error: BaseException | Mapping[str, Any] | None = None
    ) -> tuple[AssistantMessage, ...]:
        """One message per choice, by index; at least one."""
        ...
