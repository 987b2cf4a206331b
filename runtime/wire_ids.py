"""Ids of tool calls as a provider takes them: every call has one, and no two calls are mixed up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from diarist.runtime.matching import Round

OPENAI_ID_LENGTH = 40
"""Characters; OpenAI refuses longer ids, and other vendors give longer ones."""

_REFUSED_BY_ANTHROPIC = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True)
class WireIds:
    """Of calls: by the place of their assistant message and the position in it. Of results: by their place."""

    calls: dict[tuple[int, int], str]
    results: dict[int, str]


def openai_ids(found: Sequence[Round]) -> WireIds:
    """Ids as they are, but made up where there is none, cut at `OPENAI_ID_LENGTH`, and unique in their round."""
    ids = WireIds({}, {})
    for item in found:
        used: set[str] = set()
        for position, call in enumerate(item.calls):
            _take(ids, item, position, (call.id or "")[:OPENAI_ID_LENGTH], used)
    return ids


def anthropic_ids(found: Sequence[Round]) -> WireIds:
    """Ids of the characters that Anthropic allows (`^[a-zA-Z0-9_-]+$`), each used once ("ids must be unique")."""
    ids = WireIds({}, {})
    used: set[str] = set()
    for item in found:
        for position, call in enumerate(item.calls):
            _take(ids, item, position, _REFUSED_BY_ANTHROPIC.sub("_", call.id or ""), used)
    return ids


def _take(ids: WireIds, item: Round, position: int, wanted: str, used: set[str]) -> None:
    base = wanted or f"call_{position}"
    chosen, count = base, 1
    while chosen in used:
        count += 1
        ending = f"_{count}"
        chosen = base[: OPENAI_ID_LENGTH - len(ending)] + ending
    used.add(chosen)
    ids.calls[item.place, position] = chosen
    if position in item.answers:
        ids.results[item.answers[position]] = chosen
