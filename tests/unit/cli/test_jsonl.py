"""Chats as JSON Lines: what is read, what is refused, and what comes out again."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta

import pytest

from diarist import AssistantMessage, ConversationInfo, UserMessage
from diarist.adapters.cli.jsonl import BadLine, as_given, numbered_lines, read_chat, write_chat

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CARD = ConversationInfo("", "a", None, None, {}, 4, NOW, NOW + timedelta(hours=1))


def line(**data: object) -> bytes:
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "no JSON: Expecting property name enclosed in double quotes (character 2)"),
        (b"[1]", "no JSON object"),
        (b'"\xff"', "byte 2 is no UTF-8"),
        (b'"\xed\xa0\x80"', "byte 2 is no UTF-8"),
        (b'{"id": "a"}', "messages: missing"),
        (b'{"messages": {}}', "messages: no list"),
        (b'{"messages": [{"role": "bot", "content": "x"}]}', "messages[0]: role: 'bot' is none of"),
        (b'{"messages": [{"role": "user", "content": "x"}, 5]}', "messages[1]: int is no message"),
        (b'{"messages": [{"role": "user", "content": "x", "n": NaN}]}', "NaN is no JSON number"),
        (
            b'{"messages": [{"role": "user", "content": "x", "n": 1e999}]}',
            "messages[0]: extras.n: inf is no",
        ),
        (b'{"messages": [], "id": 7}', "id: int is no string"),
        (b'{"messages": [], "id": " "}', "id: blank"),
        (b'{"messages": [], "id": "\\ud800"}', "id: a lone surrogate"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_line_says_why(text: bytes, reason: str) -> None:
    with pytest.raises(BadLine) as caught:
        read_chat(3, text)
    assert reason in str(caught.value)


def test_a_message_over_the_limit_is_refused_before_anything_is_stored() -> None:
    with pytest.raises(BadLine, match=r"messages\[1\]: \d+ bytes, at most"):
        read_chat(1, line(messages=[{"role": "user", "content": "x"}, {"role": "user", "content": "x" * (5 << 20)}]))


def test_keys_are_the_messages_ids_where_all_have_one() -> None:
    messages = [{"role": "user", "content": "x", "id": "m1"}, {"role": "user", "content": "x", "id": "m2"}]
    chat = read_chat(1, line(id="a", messages=messages))
    assert (list(chat.keys), chat.derived) == (["m1", "m2"], False)


@pytest.mark.parametrize("second", [{}, {"id": "m1"}, {"id": 2}, {"id": " "}, {"id": "x" * 600}])
def test_else_keys_are_the_messages_places(second: dict[str, object]) -> None:
    """Also where two have the same id: the second one would be taken for a repeat of the first."""
    messages = [{"role": "user", "content": "x", "id": "m1"}, {"role": "user", "content": "x", **second}]
    chat = read_chat(1, line(id="a", messages=messages))
    assert (list(chat.keys), chat.derived) == (["load:0", "load:1"], True)


def test_a_chat_without_id_is_called_after_its_line() -> None:
    chat = read_chat(12, line(messages=[], tools=[], model="m"))
    assert (chat.id, chat.named, list(chat.ignored)) == ("line-12", False, ["model", "tools"])


def test_blank_lines_count_but_are_no_chats() -> None:
    stream = io.BytesIO(b"\xef\xbb\xbf{}\r\n\n  \n{}")
    assert list(numbered_lines(stream)) == [(1, b"{}\r\n"), (4, b"{}")]


def test_what_diarist_added_is_left_out() -> None:
    stored = UserMessage("x", id="0123456789abcdef01234567", created_at=NOW - timedelta(seconds=1))
    assert as_given(stored, CARD) == UserMessage("x")


def test_what_was_given_stays() -> None:
    given = AssistantMessage("x", id="msg-1", created_at=NOW - timedelta(days=3))
    assert as_given(given, CARD) is given


def test_the_whole_is_one_line_of_ascii_where_it_must_be() -> None:
    """A lone surrogate has no UTF-8, and a big number must not become a float."""
    out = write_chat(CARD, [UserMessage("\ud800\n", metadata={"n": 2**70})], full=False)
    assert out.count(b"\n") == 1
    assert out.endswith(b"\n")
    assert out.startswith(b"{")
    messages = [{"role": "user", "content": "\ud800\n", "metadata": {"n": 2**70}}]
    assert json.loads(out) == {"id": "a", "messages": messages}
