"""Chats go in and come out the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import SAMPLE, diarist


def chats(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    return sorted(found, key=lambda chat: str(chat["id"]))


def file_of(folder: Path, *lines: dict[str, Any] | str) -> Path:
    path = folder / "in.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def said(*texts: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text} for text in texts]


def logs(url: str, *arguments: str) -> dict[str, Sequence[str]]:
    """What is stored: texts by id."""
    done = diarist("export", "--store", url, *arguments)
    assert done.code == 0, done
    return {chat["id"]: [message["content"] for message in chat["messages"]] for chat in done.objects}


def test_export_gives_back_what_was_loaded(loaded: str) -> None:
    """Tool calls, parts, lone surrogates, 70-bit numbers, NUL, vendors' keys, ids and times of one's own."""
    done = diarist("export", "--store", loaded)
    assert done.code == 0
    assert chats(done.out) == chats(SAMPLE.read_text())


def test_the_order_is_that_of_the_listing(loaded: str) -> None:
    exported = [(chat.get("namespace", ""), chat["id"]) for chat in diarist("export", "--store", loaded).objects]
    listed = [(card["namespace"], card["id"]) for card in diarist("list", "--store", loaded, "--json").objects]
    assert exported == listed == sorted(exported)


def test_a_second_load_changes_nothing(loaded: str) -> None:
    before = diarist("list", "--store", loaded, "--json").out
    done = diarist("load", SAMPLE, "--store", loaded, "--json")
    assert done.objects == [{"chats": 4, "stored": 0, "present": 16, "bad": []}]
    assert diarist("list", "--store", loaded, "--json").out == before


def test_what_was_exported_can_be_loaded(loaded: str, tmp_path: Path) -> None:
    exported = diarist("export", "--store", loaded).out
    (tmp_path / "out.jsonl").write_text(exported)
    other = f"sqlite:///{tmp_path / 'other.db'}"
    assert diarist("load", tmp_path / "out.jsonl", "--store", other).code == 0
    assert diarist("export", "--store", other).out == exported


def test_full_has_ids_and_times(loaded: str) -> None:
    [chat] = diarist("export", "--full", "--store", loaded, "bakery").objects
    assert all(message["id"] and message["created_at"] for message in chat["messages"])


def test_the_view_is_what_the_model_sees(url: str, tmp_path: Path) -> None:
    path = file_of(tmp_path, {"id": "a", "messages": said(*map(str, range(9)))})
    assert diarist("load", path, "--store", url, "--window", "3").code == 0
    assert logs(url)["a"] == [str(number) for number in range(9)]
    assert logs(url, "--view")["a"] == ["6", "7", "8"]


def test_bad_lines_are_named_and_skipped_as_a_whole(url: str, tmp_path: Path) -> None:
    """Also a chat of which only the last message is bad."""
    path = file_of(
        tmp_path,
        {"id": "a", "messages": said("1")},
        "{",
        "",
        {"id": "b", "messages": [*said("1"), {"role": "user", "content": 5}]},
        {"id": "c", "messages": said("1")},
    )
    done = diarist("load", path, "--store", url, "--json")
    assert done.code == 1
    assert [item["line"] for item in done.objects[0]["bad"]] == [2, 4]
    assert "diarist: line 2: no JSON" in done.err
    assert "diarist: line 4: messages[1]: content: int is no string" in done.err
    assert logs(url) == {"a": ["1"], "c": ["1"]}


def test_a_chat_without_id_is_called_after_its_line(url: str, tmp_path: Path) -> None:
    path = file_of(tmp_path, "", {"messages": said("1"), "tools": []})
    done = diarist("load", path, "--store", url)
    assert done.code == 0
    assert "1 chats had no id and are called line-N" in done.out
    assert "not stored: tools" in done.out
    assert logs(url) == {"line-2": ["1"]}


def test_a_chat_that_grew_goes_on(url: str, tmp_path: Path) -> None:
    """Two snapshots of one chat in one file, and a third one later."""
    path = file_of(tmp_path, {"id": "a", "messages": said("1")}, {"id": "a", "messages": said("1", "2")})
    assert diarist("load", path, "--store", url).code == 0
    path = file_of(tmp_path, {"id": "a", "messages": said("1", "2", "3")})
    assert diarist("load", path, "--store", url, "--json").objects[0]["stored"] == 1
    assert logs(url) == {"a": ["1", "2", "3"]}


@pytest.mark.parametrize("concurrency", [1, 64])
def test_lines_of_one_chat_are_loaded_in_the_order_of_the_file(url: str, tmp_path: Path, concurrency: int) -> None:
    lines = [{"id": "a", "messages": [{**said(str(n))[0], "id": f"m{n}"}]} for n in range(50)]
    path = file_of(tmp_path, *lines)
    assert diarist("load", path, "--store", url, "--concurrency", concurrency).code == 0
    assert logs(url) == {"a": [str(number) for number in range(50)]}


def test_another_chat_under_the_same_id_is_refused(url: str, tmp_path: Path) -> None:
    assert diarist("load", file_of(tmp_path, {"id": "a", "messages": said("1")}), "--store", url).code == 0
    done = diarist("load", file_of(tmp_path, {"id": "a", "messages": said("other", "2")}), "--store", url)
    assert done.code == 1
    assert "line 1: messages[0]: the store has another message under this key" in done.err
    assert logs(url) == {"a": ["1"]}


def test_a_conversation_that_began_elsewhere_is_left_alone(loaded: str, tmp_path: Path) -> None:
    """Places in a chat say nothing about a conversation that has another beginning."""
    done = diarist("load", file_of(tmp_path, {"id": "own ids", "messages": said("1")}), "--store", loaded)
    assert done.code == 1
    assert "it did not begin with this chat" in done.err
    assert len(logs(loaded)["own ids"]) == 3


def test_a_chat_that_was_deleted_is_not_taken_for_loaded(loaded: str) -> None:
    assert diarist("delete", "bakery", "--yes", "--store", loaded).code == 0
    done = diarist("load", SAMPLE, "--store", loaded)
    assert done.code == 1
    assert "line 1: bakery was deleted here less than a day ago" in done.err


def test_a_namespace_for_all(url: str) -> None:
    assert diarist("load", SAMPLE, "--store", url, "--namespace", "n").code == 0
    assert set(logs(url, "--namespace", "n")) == {"bakery", "own ids", " odd\t'id'\x00\n", "parts"}
    assert logs(url, "--namespace", "tenant-1") == {}


def test_only_some_in_the_order_given(loaded: str) -> None:
    done = diarist("export", "--store", loaded, "own ids", "nobody", "bakery")
    assert done.code == 1
    assert [chat["id"] for chat in done.objects] == ["own ids", "bakery"]
    assert done.err == "diarist: there is no conversation nobody\n"


def test_a_long_log_comes_whole(url: str, tmp_path: Path) -> None:
    texts = [str(number) for number in range(2345)]
    path = file_of(tmp_path, {"id": "a", "messages": said(*texts)})
    memory_only = url + "&synchronous=off"
    assert diarist("load", path, "--store", memory_only).code == 0
    assert logs(url) == {"a": texts}
