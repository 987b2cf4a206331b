"""A stream as the UI message stream of the AI SDK, part by part as its chunks come. See `vercel_ui`."""

from __future__ import annotations

from collections.abc import Iterator

from diarist.adapters.streaming import vercel_ui
from diarist.adapters.streaming.live import Delta, Live
from diarist.adapters.streaming.vercel_ui import UIPart
from diarist.runtime.messages import AssistantMessage
from diarist.runtime.options import Encoding


class UIStream:
    """Feed it chunks, and send on the parts that it gives: `start`, then `feed` for each chunk, then `finish`."""

    def __init__(self, format: str = "auto", encoding: Encoding | None = None) -> None:
        self._live = Live(format, encoding)
        self._open: tuple[int, str, str] | None = None
        """The span that grows: its part, its kind and its id."""
        self._counts = {"text": 0, "reasoning": 0}
        self._calls: dict[int, int] = {}
        """Positions among the calls, by part."""

    def start(self, message_id: str | None = None) -> Iterator[UIPart]:
        """The parts before any content."""
        return vercel_ui.start(message_id)

    def feed(self, chunk: object) -> Iterator[UIPart]:
        """The parts that a chunk brings."""
        for delta in self._live.feed(chunk):
            yield from self._parts(delta)

    def finish(self, message: AssistantMessage | None = None, *, finish_reasons: bool = True) -> Iterator[UIPart]:
        """The rest, `[DONE]` included. `message`: what the turn stored, which knows how the stream ended."""
        whole = message if message is not None else self._live.message()
        for delta in self._live.finish(message):
            yield from self._parts(delta)
        yield from self._close()
        if whole.status in ("complete", None):
            for position in self._calls.values():
                yield vercel_ui.call_input(whole.tool_calls[position], position)
        yield from vercel_ui.end(whole, finish_reasons)

    def _parts(self, delta: Delta) -> Iterator[UIPart]:
        if delta.call is not None:
            yield from self._call(delta.part, delta)
        else:
            kind = "reasoning" if delta.kind == "reasoning" else "text"
            if self._open is None or self._open[0] != delta.part:
                yield from self._close()
                self._open = (delta.part, kind, f"{kind}-{self._counts[kind]}")
                self._counts[kind] += 1
                yield {"type": f"{kind}-start", "id": self._open[2]}
            yield {"type": f"{kind}-delta", "id": self._open[2], "delta": delta.text}

    def _call(self, part: int, delta: Delta) -> Iterator[UIPart]:
        assert delta.call is not None
        if part not in self._calls:
            yield from self._close()
            self._calls[part] = len(self._calls)
            yield {"type": "tool-input-start", **vercel_ui.named(delta.call, self._calls[part])}
        if delta.text:
            yield vercel_ui.call_delta(delta.call, self._calls[part], delta.text)

    def _close(self) -> Iterator[UIPart]:
        if self._open is not None:
            yield {"type": f"{self._open[1]}-end", "id": self._open[2]}
            self._open = None
