"""Nonsense among the chunks: it never raises, is counted, and disturbs nothing."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diarist.adapters.streaming import aggregator, chunks
from diarist.runtime.values import check
from tests.unit.streams.cases import ALL, FORMATS, aggregated, assert_reads_back, differences, is_array, is_object

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=8)
garbage = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(scalars, inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=8,
)


def words_of(value: Any) -> set[str]:
    if is_object(value):
        return set(value) | {word for item in value.values() for word in words_of(item)}
    if is_array(value):
        return {word for item in value for word in words_of(item)}
    return {value} if isinstance(value, str) and value.isascii() and "." not in value[:1] else set()


WORDS = sorted(word for case in ALL for chunk in case["chunks"] for word in words_of(chunk))
shaped = st.recursive(
    scalars | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, min_size=1, max_size=5)
    ),
    max_leaves=25,
)
"""Chunks out of the words of real ones: right keys, wrong values."""


class Hostile:
    """Raises at whatever is asked of it."""

    def __getattribute__(self, _name: str) -> NoReturn:
        raise RuntimeError("no")


class HostileDict(dict[str, Any]):
    def get(self, *_args: object) -> NoReturn:
        raise RuntimeError("no")


def cycle() -> dict[str, Any]:
    ring: dict[str, Any] = {"choices": [], "candidates": [], "x": 1}
    ring["choices"] = [ring, ring]
    ring["extra"] = [ring, ring]
    return ring


NONSENSE: list[Any] = [
    *(None, 0, True, 1.5, float("nan"), b"\xff", "data", [], [{}], (), {}, object(), Hostile(), HostileDict(a=1)),
    *(Exception("x"), int, len, NotImplemented, ..., {1: 2}, {None: None}, {"choices": 5}, {"type": []}),
    *({"type": {}}, {"choices": [None, 5, {"delta": 7}]}, {"event": {"a": b"b"}}),
]


@pytest.mark.parametrize("format", [*FORMATS, "auto"])
@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case['format']}-{case['name']}")
def test_nonsense_between_chunks(case: Any, format: str) -> None:
    """In its own format the message is as without it; in any other nothing raises either."""
    aggregate = aggregator(format)
    mixed: list[Any] = [item for chunk in case["chunks"] for item in (chunk, *NONSENSE)]
    for chunk in mixed:
        aggregate.add(chunk)
    message = aggregate.message(cancelled=case["ends"] == "cancelled")
    assert_reads_back(message)
    assert aggregate.seen == len(mixed)
    if format == case["format"] and "choices" not in case["expect"]:
        assert differences(case["expect"], message) == {}
        assert aggregate.skipped >= 15 * len(case["chunks"])


@pytest.mark.parametrize("format", [*FORMATS, "auto", "text"])
def test_cycles_and_hostile_objects(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles end, deep nesting ends, a value that unfolds without end ends, and what is kept can be stored."""
    monkeypatch.setattr(chunks, "MAX_NODES", 1_000)
    deep: Any = {}
    for _ in range(5_000):
        deep = {"extra": deep, "choices": [deep], "candidates": [deep]}
    wide: Any = [0]
    for _ in range(40):
        wide = [wide, wide]
    aggregate = aggregated(
        format,
        [
            cycle(),
            deep,
            {"model": "m", "done": True, "wide": wide},
            Hostile(),
            HostileDict(),
            {"choices": [Hostile()]},
        ],
    )
    assert_reads_back(aggregate.message())


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.sampled_from([*FORMATS, "auto", "text"]), st.lists(garbage | shaped, max_size=8))
def test_anything_at_all(format: str, stream: list[Any]) -> None:
    """Whatever came, the message can be stored and reads back as it is."""
    aggregate = aggregated(format, stream)
    assert aggregate.seen == len(stream)
    for message in aggregate.messages():
        assert_reads_back(message)
        check(message.to_dict(), "message")
