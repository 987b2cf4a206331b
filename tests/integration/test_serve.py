"""`diarist serve` as its users have it: a process, HTTP, signals."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.asgi import text_of
from tests.support.cli import diarist, finish, start
from tests.support.serving import client_of, command, serving

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals to a process are POSIX's")


async def test_a_conversation_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    with serving(tmp_path / "chat.db", "--delay", "0") as server:
        async with client_of(server.url) as client:
            made = await client.http.post("/api/conversations", json={"title": "Bread"})
            id = made.json()["id"]
            told = await client.ask(id, "Hello")
            assert (told[0][0], told[-1][0]) == ("start", "done")
            question, answer = await client.history(id)
            assert (question["content"], answer["status"]) == ("Hello", "complete")
            assert "Hello" in answer["content"]
            again = await client.http.post(f"/api/conversations/{id}/regenerate")
            assert again.status_code == 200
            assert len(await client.history(id)) == 3
            listed = (await client.http.get("/api/conversations")).json()["items"]
            assert [(card["id"], card["title"]) for card in listed] == [(id, "Bread")]
            assert (await client.http.delete(f"/api/conversations/{id}")).status_code == 204
            assert (await client.http.get(f"/api/conversations/{id}")).status_code == 404
        done = server.stop()
    assert (done.code, done.err) == (0, "")


async def test_an_answer_goes_on_when_the_client_leaves_and_is_followed_again(tmp_path: Path) -> None:
    with serving(tmp_path / "chat.db", "--delay", "0.05") as server:
        async with client_of(server.url) as client:
            async with client.asking("c", "Go on") as response:
                await response.until('"text"')
            async with client.following("c") as response:
                body = await response.rest()
            [question, answer] = await client.history("c")
            assert text_of(body.encode()) == answer["content"]
            assert answer["status"] == "complete"
            assert question["content"] == "Go on"
            nothing = await client.http.get("/api/conversations/c/stream")
            assert nothing.status_code == 204


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_sigterm_gives_grace_then_policy_then_zero(number: int, tmp_path: Path) -> None:
    """Short answers end by themselves, a long one is cut and says so; clients see how; all within the deadline."""
    with serving(tmp_path / "chat.db", "--delay", "0.1", "--grace", "4") as server:
        async with (
            client_of(server.url) as client,
            client.asking("a", "One") as first,
            client.asking("b", "Two") as second,
        ):
            await asyncio.gather(first.until('"text"'), second.until('"text"'))
            begun = time.monotonic()
            server.process.send_signal(number)
            bodies = await asyncio.gather(first.rest(), second.rest())
        done = await asyncio.to_thread(finish, server.process)
        assert (done.code, done.err) == (0, "")
        assert time.monotonic() - begun < 7
    export = await command("export", "--store", f"sqlite:///{tmp_path}/chat.db")
    stored = {chat["id"]: chat["messages"] for chat in export.objects}
    for id, body in zip("ab", bodies, strict=True):
        is_done = "event: done" in body
        assert is_done or "TurnInterruptedError" in body
        question, answer = stored[id]
        assert question["role"] == "user"
        assert answer["status"] == ("complete" if is_done else "cancelled")
        assert answer["content"] == text_of(body.encode())


async def test_tokens_and_namespaces(tmp_path: Path) -> None:
    """Each token sees its own conversations, and nothing is seen without one."""
    tokens = tmp_path / "tokens"
    tokens.write_text("# who and what\nann secret-a\nbob secret-b\n")
    with serving(tmp_path / "chat.db", "--tokens", tokens, "--delay", "0") as server:
        async with client_of(server.url, authorization="Bearer secret-a") as ann:
            await ann.ask("c", "mine")
        async with client_of(server.url, authorization="Bearer secret-b") as bob:
            assert (await bob.http.get("/api/conversations")).json()["items"] == []
            assert (await bob.http.get("/api/conversations/c/messages")).status_code == 404
            await bob.ask("c", "also mine")
            assert (await bob.history("c"))[0]["content"] == "also mine"
        async with client_of(server.url) as nobody:
            for path in ("/api/conversations", "/api/conversations/c/messages", "/metrics"):
                refused = await nobody.http.get(path)
                assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            for path in ("/", "/health", "/ready", "/openapi.json"):
                assert (await nobody.http.get(path)).status_code == 200
    listed = (await command("list", "--store", f"sqlite:///{tmp_path}/chat.db", "--json")).objects
    assert sorted(card["namespace"] for card in listed) == ["ann", "bob"]


def test_wrong_usage(tmp_path: Path) -> None:
    broken = tmp_path / "tokens"
    broken.write_text("only-one-word\n")
    for options in (["--overlap", "never"], ["--tokens", broken], ["--model-url", "http://127.0.0.1:1"]):
        assert diarist("serve", "--store", "memory://", *options).code == 2


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with serving(tmp_path / "chat.db") as server:
        port = server.url.rpartition(":")[2]
        done = finish(start("serve", "--store", "memory://", "--port", port))
        assert done.code == 1
        assert "address already in use" in done.err.lower()
        assert "Traceback" not in done.err
