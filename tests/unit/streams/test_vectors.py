"""Every vector, as dicts, through `auto`, through bytes, and through the chat format."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterable

import pytest

from diarist.adapters.streaming import aggregator, decode, decoder
from tests.unit.streams.cases import (
    ALL,
    WITH_BYTES,
    Case,
    aggregated,
    assert_reads_back,
    differences,
    encoding_of,
    is_array,
    is_object,
    name_of,
    reads_of,
)

each = pytest.mark.parametrize("case", ALL, ids=name_of)
each_body = pytest.mark.parametrize("case", WITH_BYTES, ids=name_of)


async def streamed(reads: Iterable[bytes]) -> AsyncIterator[bytes]:
    for read in reads:
        yield read


@each
@pytest.mark.parametrize("auto", [False, True], ids=["named", "auto"])
def test_the_message(case: Case, auto: bool) -> None:
    """The chunks give the expected message; recognising the format changes nothing."""
    aggregate = aggregated("auto" if auto else case["format"], case["chunks"])
    if "sse_done" in case["rules"]:
        aggregate.add("[DONE]")  # the sentinel as text, for who splits the lines himself
    message = aggregate.message(cancelled=case["ends"] == "cancelled")
    assert differences(case["expect"], message) == {}
    assert message.status == case["ends"]
    assert_reads_back(message)


@each
def test_the_choices(case: Case) -> None:
    """One message per choice by index; the message is the lowest one."""
    aggregate = aggregated(case["format"], case["chunks"])
    messages = aggregate.messages()
    assert messages[0] == aggregate.message()
    if "choices" in case["expect"]:
        assert len(messages) == len(case["expect"]["choices"])
        for expect, message in zip(case["expect"]["choices"], messages, strict=True):
            assert differences(expect, message) == {}


@each
def test_chunks_are_left_as_they_are(case: Case) -> None:
    """Adding changes no chunk, and changing a chunk afterwards changes no message."""
    chunks = copy.deepcopy(case["chunks"])
    aggregate = aggregated(case["format"], chunks)
    assert chunks == case["chunks"]
    before = aggregate.message()
    for chunk in chunks:
        _wreck(chunk)
    assert aggregate.message() == before


def _wreck(value: object) -> None:
    if is_object(value):
        for item in [*value.values()]:
            _wreck(item)
        value.clear()
    elif is_array(value):
        for item in value:
            _wreck(item)
        value.clear()


@each
def test_asking_early_changes_nothing(case: Case) -> None:
    """`message` may be called at any time and repeatedly."""
    aggregate = aggregator(case["format"])
    for chunk in case["chunks"]:
        aggregate.add(chunk)
        assert aggregate.message() == aggregate.message()
    assert aggregate.message() == aggregated(case["format"], case["chunks"]).message()
    assert aggregate.seen == len(case["chunks"])


@each_body
async def test_the_payloads_of_a_body(case: Case) -> None:
    """Decoding gives the chunks, however the reads are split."""
    assert [payload async for payload in decode(streamed(reads_of(case)), encoding_of(case))] == case["chunks"]


@each_body
async def test_a_body_to_a_message(case: Case) -> None:
    """`decode` into an aggregate: it knows of `[DONE]`, which is no payload."""
    aggregate = aggregator("auto")
    async for payload in decode(streamed(reads_of(case)), encoding_of(case)):
        aggregate.add(payload)
    message = aggregate.message()
    assert differences(case["expect"], message) == {}
    assert message.status == case["ends"]


@each_body
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1 << 20])
def test_reads_of_any_size(case: Case, size: int) -> None:
    """Byte by byte, or all at once: the push decoder gives the same payloads."""
    body = b"".join(reads_of(case))
    pushed = decoder(encoding_of(case))
    payloads = [item for at in range(0, len(body), size) for item in pushed.feed(body[at : at + size])]
    assert payloads + pushed.close() == case["chunks"]
    assert pushed.skipped == 0
    assert pushed.done == (b"[DONE]" in body)
