"""Recording raw bytes: the port of decoders, and an aggregate of what they find in an upstream's HTTP body.

Decoders are found by name through the entry point group `diarist.decoders`; the object there is a class without
constructor arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

from diarist.runtime.aggregates import Aggregate
from diarist.runtime.messages import AssistantMessage


class Decoder(Protocol):
    """Network reads, cut anywhere, to the payloads that they complete."""

    @property
    def skipped(self) -> int:
        """Events that held no payload, although they should."""
        ...

    def feed(self, data: bytes | str) -> list[Any]:
        """The payloads that this read completes, at once. Never raises, whatever the bytes are."""
        ...

    def close(self) -> list[Any]:
        """The payloads that the end of the body completes."""
        ...


class DecodedAggregate:
    """Takes bytes (or text) as chunks, and adds the payloads in them to the aggregate of a format."""

    def __init__(self, aggregate: Aggregate, decoder: Decoder) -> None:
        self._aggregate = aggregate
        self._decoder = decoder
        self._strange = 0
        self.seen = 0

    @property
    def skipped(self) -> int:
        """Chunks that are no bytes, events that are no JSON, and payloads that make no sense in the format."""
        return self._strange + self._decoder.skipped + self._aggregate.skipped

    def add(self, chunk: object) -> None:
        """Take the next read."""
        self.seen += 1
        if isinstance(chunk, (bytes, str)):
            self._take(self._decoder.feed(chunk))
        elif isinstance(chunk, (bytearray, memoryview)):
            self._take(self._decoder.feed(bytes(cast("bytearray", chunk))))
        else:
            self._strange += 1

    def close(self) -> None:
        """The body has ended, and with it its last event."""
        self._take(self._decoder.close())

    def message(
        self, *, cancelled: bool = False, error: BaseException | Mapping[str, Any] | None = None
    ) -> AssistantMessage:
        """The message so far; an event that is not whole yet is not in it."""
        return self._aggregate.message(cancelled=cancelled, error=error)

    def messages(
        self, *, cancelled: bool = False, error: BaseException | Mapping[str, Any] | None = None
    ) -> tuple[AssistantMessage, ...]:
        """One message per choice, as `message`."""
        return self._aggregate.messages(cancelled=cancelled, error=error)

    def _take(self, payloads: list[Any]) -> None:
        for payload in payloads:
            self._aggregate.add(payload)
