"""OpenRouter's `reasoning_details`: typed blocks in fragments, which models want back whole.

https://openrouter.ai/docs/use-cases/reasoning-tokens (preserving reasoning blocks).
"""

from __future__ import annotations

from collections.abc import Collection

from diarist.adapters.streaming.chunks import Fields, fields, listed, number, word
from diarist.adapters.streaming.pieces import Extras, joined, note

_APPENDED = ("text", "summary", "data")


def text_of(value: object) -> str:
    """A text, or the texts of a list of parts, joined."""
    if isinstance(value, str):
        return value
    return "".join(_entry_text(entry) for entry in listed(value))


def _entry_text(entry: object) -> str:
    text = entry if isinstance(entry, str) else (fields(entry) or {}).get("text")
    return text if isinstance(text, str) else ""


class DetailBook:
    """The blocks of one choice: merged by type and index, one without an index stands alone."""

    __slots__ = ("_blocks", "_by_key")

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._by_key: dict[tuple[str | None, int], _Block] = {}

    def take(self, entries: Collection[object], text: str | None) -> str:
        """Merge the entries of one delta; returns the reasoning that it adds, `text` if that is told."""
        told: list[str] = []
        for entry in entries:
            if (found := fields(entry)) is not None:
                self._block(found).take(found)
                told.append(word(found.get("text")) or word(found.get("summary")) or "")
        return text or "".join(told)

    def built(self) -> list[Extras]:
        """The blocks so far, in order of appearance."""
        return [block.built() for block in self._blocks]

    def _block(self, entry: Fields) -> _Block:
        index = number(entry.get("index"))
        key = (word(entry.get("type")), index if index is not None else -1)
        block = self._by_key.get(key) if index is not None else None
        if block is None:
            block = _Block()
            self._blocks.append(block)
            self._by_key[key] = block
        return block


class _Block:
    """One block: text, summary and data grow, every other key is set (its last value that is not null)."""

    __slots__ = ("_fragments", "_values")

    def __init__(self) -> None:
        self._values: Extras = {}
        self._fragments: dict[str, list[str]] = {}

    def take(self, entry: Fields) -> None:
        for key, value in entry.items():
            if key in _APPENDED and isinstance(value, str):
                self._fragments.setdefault(key, []).append(value)
                self._values.setdefault(key, "")
            elif key != "index" or self._values.get(key) is None:
                self._values.setdefault(key, None)  # a null key is sent back as one
                note(self._values, key, value)

    def built(self) -> Extras:
        return {**self._values, **{key: joined(found) for key, found in self._fragments.items()}}
