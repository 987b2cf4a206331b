"""Chat Completions: the rules beyond the vectors' cases. Each docstring is the rule."""

from __future__ import annotations

from typing import Any

import pytest

from diarist.runtime.messages import AssistantMessage
from tests.unit.streams.cases import aggregated, assert_reads_back, message_of, shown

NOTHING: Any = {}


def chunk(delta: Any = None, **choice: Any) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, **choice}]}


def told(*deltas: Any) -> AssistantMessage:
    message = message_of("openai_chat", *map(chunk, deltas))
    assert_reads_back(message)
    return message


def entry(index: Any = None, id: Any = None, name: Any = None, arguments: Any = None, **more: Any) -> Any:
    return {"index": index, "id": id, "function": {"name": name, "arguments": arguments}, **more}


def calls(*entries: Any) -> list[tuple[str | None, str, str]]:
    message = told(*[{"tool_calls": [item]} for item in entries])
    return [(call.id, call.name, call.arguments) for call in message.tool_calls]


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        # tool_index: an index need not start at 0, and one in digits is the same
        ([entry(3, "a", "f", "1"), entry("3", None, None, "2")], [("a", "f", "12")]),
        (
            [entry(7, "a", "f", "1"), entry(2, "b", "g", "2"), entry(7, arguments="3")],
            [("a", "f", "13"), ("b", "g", "2")],
        ),
        # an index that is unused opens a call, also with a known id
        ([entry(0, "a", "f", "1"), entry(1, "a", "f", "2")], [("a", "f", "1"), ("a", "f", "2")]),
        # an id that comes late is set once
        ([entry(0, None, "f", "1"), entry(0, "a", None, "2"), entry(0, "b", None, "3")], [("a", "f", "123")]),
        ([entry(0, None, "f", "1"), entry(0, "a", "f", "2")], [("a", "f", "12")]),
        # tool_no_index: a known id decides, else a name opens, else the last goes on
        (
            [entry(None, "a", "f", "1"), entry(None, "b", "g", "2"), entry(None, "a", "f", "3")],
            [("a", "f", "13"), ("b", "g", "2")],
        ),
        ([entry(None, "a", "f", "1"), entry(None, "z", None, "2"), entry(None, None, "", "3")], [("a", "f", "123")]),
        ([entry(None, None, "f", "1"), entry(None, None, "f", "2")], [(None, "f", "1"), (None, "f", "2")]),
        ([entry(True, "a", "f", "1"), entry("x", None, None, "2")], [("a", "f", "12")]),
        # tool_new_id: on a used index another id with a name is new, the index goes on with the newest
        (
            [entry(0, "a", "f"), entry(0, "b", "g"), entry(0, arguments="1"), entry(0, "a", arguments="2")],
            [("a", "f", "2"), ("b", "g", "1")],
        ),
        # set_once and tool_placeholder_id
        ([entry(0, "null", "f", "1"), entry(0, "a", None, "2")], [("a", "f", "12")]),
        ([entry(0, "a", "f", "1"), entry(0, "a", "other", "2")], [("a", "f", "12")]),
        # an entry that says nothing is no call
        ([entry(), entry(0), None, 5, NOTHING], []),
        ([entry(None, None, None, "1")], [(None, "", "1")]),
    ],
)
def test_whose_fragment(entries: list[Any], found: list[Any]) -> None:
    """By index; on a used index by id, then by id with name; without an index by id, by name, else the newest."""
    assert calls(*entries) == found


def test_arguments_as_objects_are_encoded_once() -> None:
    """Compact, key order kept, non-ASCII as it is; a repeat doesn't double them, fragments go first."""
    whole = {"b": [1, None], "a": "É\ud83d"}
    assert calls(entry(0, "a", "f", whole), entry(0, "a", "f", whole)) == [("a", "f", '{"b":[1,null],"a":"É\ud83d"}')]
    assert calls(entry(0, "a", "f", "{}"), entry(0, "a", "f", whole)) == [("a", "f", "{}")]
    assert calls(entry(0, "a", "f", 5), entry(0, None, None, True)) == [("a", "f", "")]


def test_vendor_data_of_a_call() -> None:
    """Beside the function, and inside it, also under keys of ours; a custom call has text."""
    extra = entry(0, "a", "f", "{}", extra_content={"x": 1}, extras={"id": 3}, caller=None)
    extra["function"]["thought"] = "t"
    (call,) = told({"tool_calls": [extra]}).tool_calls
    assert call.extras == {"extra_content": {"x": 1}, "extras": {"id": 3}, "function": {"thought": "t"}}
    custom = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "sql", "input": "SELECT "}}
    more = {"index": 0, "custom": {"input": "1"}}
    (call,) = told({"tool_calls": [custom]}, {"tool_calls": [more]}).tool_calls
    assert (call.type, call.name, call.arguments) == ("custom", "sql", "SELECT 1")


def test_the_old_form_beside_tool_calls() -> None:
    """The chat format has one place for a function_call: beside tool calls it is one of them, in its order."""
    old = {"function_call": {"name": "g", "arguments": "1"}}
    message = told({"tool_calls": [entry(0, "a", "f", "2")]}, old, {"function_call": {"arguments": "3"}})
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == [
        ("a", "f", "2"),
        (None, "g", "13"),
    ]
    assert [call.name for call in told(old, {"tool_calls": [entry(0, "a", "f")]}).tool_calls] == ["g", "f"]


def test_parts_in_their_order() -> None:
    """Reasoning, content, calls within a delta; a change of kind starts a part, emptiness does not."""
    message = told(
        {"content": "A", "reasoning": "r"},
        {"content": ""},
        {"reasoning": "s", "content": None},
        {"tool_calls": [entry(0, "a", "f")]},
        {"content": "B"},
        {"reasoning_content": ""},
        {"content": "C"},
    )
    assert [(part.get("text"), part.get("call")) for part in map(shown, message.parts)] == [
        ("r", None),
        ("A", None),
        ("s", None),
        (None, 0),
        ("BC", None),
    ]


@pytest.mark.parametrize(
    ("delta", "reasoning"),
    [
        ({"reasoning_content": "a", "reasoning": "b"}, "a"),
        ({"reasoning_content": "", "reasoning": "b"}, "b"),
        ({"reasoning_content": None, "reasoning_details": [{"type": "reasoning.text", "text": "c"}]}, "c"),
        ({"reasoning_details": [{"type": "reasoning.summary", "summary": "d"}, {"text": None}]}, "d"),
        ({"reasoning": {"odd": 1}}, ""),
    ],
)
def test_one_reasoning_per_delta(delta: Any, reasoning: str) -> None:
    """`reasoning_content`, else `reasoning`, else the text of the details."""
    assert told(delta).reasoning == reasoning


def test_details_merge_by_type_and_index() -> None:
    """Text, summary and data grow, the rest is set; without an index a block stands alone."""
    blocks = [
        {"type": "reasoning.encrypted", "index": 0, "data": "ab", "id": None},
        {"type": "reasoning.text", "index": 0, "text": "\ud83d"},
        {"type": "reasoning.encrypted", "index": "0", "data": "cd", "id": "i"},
        {"type": "reasoning.text", "index": 0, "text": "\ude00", "signature": "s"},
        {"type": "reasoning.text", "text": "x"},
        {"type": "reasoning.text", "text": "y"},
    ]
    message = told(*[{"reasoning_details": [block]} for block in blocks])
    assert message.extras["reasoning_details"] == [
        {"type": "reasoning.encrypted", "index": 0, "data": "abcd", "id": "i"},
        {"type": "reasoning.text", "index": 0, "text": "\U0001f600", "signature": "s"},
        {"type": "reasoning.text", "text": "x"},
        {"type": "reasoning.text", "text": "y"},
    ]
    assert message.reasoning == "\U0001f600xy"


def test_content_as_a_list() -> None:
    """Text and thinking parts in order; another kind is kept whole in its place."""
    reference = {"type": "reference", "reference_ids": [1]}
    message = told(
        {"content": [{"type": "thinking", "thinking": "Hm", "closed": True}, {"type": "text", "text": "A"}]},
        {"content": [reference, "B", {"type": "text", "text": "C"}, {"type": "refusal", "refusal": "No"}]},
    )
    assert [shown(part) for part in message.parts] == [
        {"type": "reasoning", "text": "Hm", "extras": {}},
        {"type": "text", "text": "A", "extras": {}},
        {"type": "opaque", "data": reference},
        {"type": "text", "text": "BC", "extras": {}},
    ]
    assert (message.text, message.refusal) == ("ABC", "No")


@pytest.mark.parametrize(
    ("reasons", "last"),
    [
        (["tool_calls", "stop"], "tool_calls"),
        (["function_call", "stop", None], "function_call"),
        (["stop", "tool_calls"], "tool_calls"),
        (["tool_calls", "length"], "length"),
        (["tool_calls", "length", "stop"], "stop"),
        (["stop", "", None], "stop"),
        ([None, 5, ["x"]], None),
    ],
)
def test_the_last_finish_reason(reasons: list[Any], last: str | None) -> None:
    """The last that says something, but `stop` never replaces a call's."""
    message = message_of("openai_chat", *[chunk({}, finish_reason=reason) for reason in reasons])
    assert message.finish_reason == last
    assert message.status == ("complete" if last else "truncated")


def test_usage_is_a_running_total() -> None:
    """Per key the last value that is not null, also in details; own usage before a vendor's place for it."""
    message = message_of(
        "openai_chat",
        {"usage": {"a": 1, "d": {"x": 1, "y": 2}, "n": None}},
        {"usage": {"a": 3, "d": {"x": 5, "y": None}}, "x_groq": {"usage": {"a": 9, "g": 1}}},
        {"usage": {}, "choices": [chunk({}, usage={"c": 7})["choices"][0]]},
        {"usage": None},
        {"x_groq": {"usage": {"g": 2.5}}},
    )
    assert message.usage == {"a": 3, "d": {"x": 5, "y": 2}, "c": 7, "g": 2.5}


@pytest.mark.parametrize(
    ("chunks", "error"),
    [
        ([{"error": "oops"}, {"error": {"code": 1}}], {"message": "oops"}),
        ([chunk({}, finish_reason="error", error={"code": 502})], {"code": 502}),
        ([{"object": "error", "message": "m", "code": 400}], {"object": "error", "message": "m", "code": 400}),
        ([{"id": "c", "error": {"a": 1}, "choices": NOTHING}, chunk({}, finish_reason="stop")], {"a": 1}),
    ],
)
def test_errors_in_the_stream(chunks: list[Any], error: Any) -> None:
    """The first one stays and wins over everything: a finish reason, a cancel, an exception."""
    aggregate = aggregated("openai_chat", [chunk({"content": "A"}), *chunks])
    for message in (aggregate.message(), aggregate.message(cancelled=True), aggregate.message(error=ValueError())):
        assert (message.status, message.error, message.text) == ("error", error, "A")


def test_no_error_is_no_error() -> None:
    """Null and empty error fields are skipped."""
    assert message_of("openai_chat", {"error": None}, {"error": ""}, chunk(error=None)).status == "truncated"


def test_extras_are_the_last_value() -> None:
    """Top-level, choice and delta fields; not null; never concatenated; padding is left out."""
    message = message_of(
        "openai_chat",
        {"obfuscation": "xx", "tier": "a", "list": [1], "choices": [{"delta": {"foo": "1"}, "bar": "b"}]},
        {"tier": "b", "list": None, "choices": [{"delta": {"foo": "2"}, "bar": None}]},
    )
    assert message.extras == {"tier": "b", "list": [1], "foo": "2", "bar": "b"}


def test_lists_that_are_collected() -> None:
    """Log probabilities by kind, annotations; nulls between add nothing."""
    message = message_of(
        "openai_chat",
        chunk({"annotations": [{"a": 1}]}, logprobs={"content": [{"t": 1}], "refusal": None}),
        chunk({"annotations": None}, logprobs=None),
        chunk({"annotations": [{"a": 2}]}, logprobs={"content": [{"t": 2}], "refusal": [{"r": 1}]}),
    )
    assert message.extras["annotations"] == [{"a": 1}, {"a": 2}]
    assert message.extras["logprobs"] == {"content": [{"t": 1}, {"t": 2}], "refusal": [{"r": 1}]}


def test_choices_by_index() -> None:
    """A missing index is 0; the order of arrival plays no role; all share id, usage and status."""
    aggregate = aggregated(
        "openai_chat",
        [
            {"id": "c", "choices": [{"index": 5, "delta": {"content": "E"}, "finish_reason": "stop"}]},
            {"choices": [{"delta": {"content": "A"}}, {"index": "5", "delta": {"content": "F"}}]},
        ],
    )
    assert [message.text for message in aggregate.messages()] == ["A", "EF"]
    assert [message.status for message in aggregate.messages()] == ["truncated"] * 2
    assert {message.response_id for message in aggregate.messages()} == {"c"}


def test_a_chunk_inside_an_event() -> None:
    """Mistral's SDK wraps chunks in `data`, OpenAI's stream helper in `chunk`; its own events are left out."""
    wrapped = [{"data": chunk({"content": "A"})}, {"type": "chunk", "chunk": chunk({"content": "B"})}]
    message = message_of("auto", *wrapped, {"type": "content.delta", "delta": "B", "snapshot": "AB"})
    assert message.text == "AB"
