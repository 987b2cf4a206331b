"""The web app's API, in this process: what each request answers, and what two of them at once do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from diarist import ChatMemory, Turn
from diarist.adapters.serve import ServeSettings, create_app
from tests.support.asgi import Call, events, text_of
from tests.support.turns import HeldStore, settle, stored, until


class Desk:
    """An app whose model says a word for each `go`, and counts how often it was asked."""

    def __init__(self, memory: ChatMemory, store: HeldStore, settings: ServeSettings) -> None:
        self.memory = memory
        self.store = store
        self.asked = 0
        self.go = asyncio.Event()
        self.app = create_app(memory, settings, model=self._model)

    def _model(self, turn: Turn) -> AsyncIterator[str]:
        self.asked += 1
        return self._say(turn.messages[-1].text)

    async def _say(self, text: str) -> AsyncIterator[str]:
        yield "To "
        await self.go.wait()
        yield text

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Call:
        data = b"" if body is None else json.dumps(body).encode()
        told = {
            "content-type": "application/json",
            **{key.replace("_", "-"): value for key, value in headers.items()},
        }
        return Call(self.app, method, path, body=data, headers=told)

    def ask(self, text: str, query: str = "", **headers: str) -> Call:
        return self.call("POST", f"/api/conversations/c/messages{query}", {"text": text}, **headers)

    async def view(self) -> list[str]:
        return await stored(self.memory.conversation("c"))


@asynccontextmanager
async def desk(**settings: Any) -> AsyncGenerator[Desk, None]:
    store = HeldStore()
    async with ChatMemory(store) as memory:
        yield Desk(memory, store, ServeSettings(**settings))


async def test_a_double_click_asks_the_model_once() -> None:
    """The second follows the first; a later one gets the stored answer; other content with the key is refused."""
    async with desk() as d:
        calls = [d.ask("q", idempotency_key="k")]
        await calls[0].until("To ")
        calls.append(d.ask("q", idempotency_key="k"))
        await calls[1].until("To ")
        d.go.set()
        calls.append(d.ask("q", idempotency_key="k"))
        for call in calls:
            assert text_of((await call.end()).body) == "To q"
        assert d.asked == 1
        assert await d.view() == ["u:q", "a:To q"]
        other = await d.ask("something else", idempotency_key="k").end()
        assert (other.status, other.json()["error"]) == (422, "IdempotencyError")


async def test_two_clicks_at_the_very_same_time() -> None:
    async with desk() as d:
        calls = [d.ask("q", idempotency_key="k") for _ in range(5)]
        await settle()
        d.go.set()
        for call in calls:
            assert text_of((await call.end()).body) == "To q"
        assert d.asked == 1


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        ("queue", ["u:1", "a:To 1", "u:2", "a:To 2"]),
        ("reject", ["u:1", "a:To 1"]),
        ("interrupt", ["u:1", "a:To  (cancelled)", "u:2", "a:To 2"]),
    ],
)
@pytest.mark.parametrize("by", ["settings", "request"])
async def test_two_tabs_at_once(by: str, overlap: Any, expected: list[str]) -> None:
    """Whole turns, never interleaved."""
    async with desk(**({"overlap": overlap} if by == "settings" else {})) as d:
        query = f"?overlap={overlap}" if by == "request" else ""
        first = d.ask("1", query)
        await first.until("To ")
        second = d.ask("2", query)
        if overlap == "reject":
            assert ((await second.end()).status, second.json()["error"]) == (409, "TurnRejectedError")
        elif overlap == "interrupt":
            await first.end()
            assert events(first.body)[-1][1]["error"] == "TurnInterruptedError"
        else:
            await settle()
            assert second.status == 0
        d.go.set()
        await asyncio.gather(first.end(), second.end())
        assert await d.view() == expected


async def test_the_question_is_there_while_the_answer_runs() -> None:
    """A reload in the middle shows it."""
    async with desk() as d:
        call = d.ask("q")
        await call.until("To ")
        shown = await d.call("GET", "/api/conversations/c/messages").end()
        assert [item["message"]["content"] for item in shown.json()["items"]] == ["q"]
        d.go.set()
        await call.end()


async def test_reading_right_after_the_last_event_sees_the_answer() -> None:
    async with desk() as d:
        call = d.ask("q")
        await call.until("To ")
        d.store.hold()
        d.go.set()
        await d.store.reached.wait()
        await settle()
        assert "done" not in call.body.decode()
        d.store.free.set()
        await call.until("event: done")
        shown = await d.call("GET", "/api/conversations/c/messages").end()
        assert shown.json()["items"][-1]["message"]["content"] == "To q"
        assert shown.json()["items"][-1]["version"] == events(call.body)[-1][1]["version"]
        await call.end()


async def test_stop_keeps_what_came() -> None:
    async with desk() as d:
        call = d.ask("q")
        await call.until("To ")
        assert (await d.call("POST", "/api/conversations/c/interrupt").end()).json() == {"interrupted": True}
        assert await d.view() == ["u:q", "a:To  (cancelled)"]
        await call.end()
        assert (await d.call("POST", "/api/conversations/c/interrupt").end()).json() == {"interrupted": False}


async def test_regenerate() -> None:
    """Replaces the answer in view; not while one runs, unless that is to be ended."""
    async with desk() as d:
        path = "/api/conversations/c/regenerate"
        assert (await d.call("POST", path).end()).status == 404
        call = d.ask("q")
        await call.until("To ")
        assert (await d.call("POST", path).end()).status == 409
        again = d.call("POST", f"{path}?overlap=interrupt")
        await again.until("To ")
        d.go.set()
        await asyncio.gather(call.end(), again.end())
        assert await d.view() == ["u:q", "a:To q"]
        assert len((await d.call("GET", "/api/conversations/c/messages").end()).json()["items"]) == 3
        await d.call("POST", "/api/conversations/c/clear").end()
        assert (await d.call("POST", path).end()).status == 404


async def test_rewind_and_ask_anew() -> None:
    """How a question is edited."""
    async with desk() as d:
        d.go.set()
        await d.ask("first").end()
        await d.ask("secnd").end()
        items = (await d.call("GET", "/api/conversations/c/messages").end()).json()["items"]
        done = await d.call("POST", "/api/conversations/c/rewind", {"before": items[2]["message"]["id"]}).end()
        assert (done.status, done.json()["replayed"]) == (200, False)
        await d.ask("second").end()
        assert await d.view() == ["u:first", "a:To first", "u:second", "a:To second"]
        assert (await d.call("POST", "/api/conversations/c/rewind", {"version": 99}).end()).status == 404
        assert (await d.call("POST", "/api/conversations/c/rewind", {}).end()).status == 422


async def test_conversations() -> None:
    async with desk() as d:
        made = await d.call("POST", "/api/conversations", {"title": "One", "id": "a/b"}).end()
        assert (made.status, made.json()["id"], made.json()["title"]) == (201, "a/b", "One")
        assert (await d.call("POST", "/api/conversations", {"id": "a/b"}).end()).status == 409
        await d.call("POST", "/api/conversations", {}).end()
        renamed = await d.call("PATCH", "/api/conversations/a/b", {"title": "Two"}).end()
        assert renamed.json()["title"] == "Two"
        first = (await d.call("GET", "/api/conversations?limit=1").end()).json()
        rest = (await d.call("GET", f"/api/conversations?limit=1&after={first['next']}").end()).json()
        assert {card["title"] for card in first["items"] + rest["items"]} == {"Two", "New conversation"}
        assert (await d.call("DELETE", "/api/conversations/a/b").end()).status == 204
        for method in ("GET", "DELETE", "PATCH"):
            assert (await d.call(method, "/api/conversations/a/b", {"title": "x"}).end()).status == 404


async def test_deleting_ends_a_running_answer() -> None:
    async with desk() as d:
        call = d.ask("q")
        await call.until("To ")
        assert (await d.call("DELETE", "/api/conversations/c").end()).status == 204
        await call.end()
        await until(lambda: not d.memory.stats().detached)
        assert (await d.call("GET", "/api/conversations/c").end()).status == 404


async def test_pages_of_the_history() -> None:
    async with desk() as d:
        d.go.set()
        for number in range(3):
            await d.ask(f"{number}").end()
        path = "/api/conversations/c/messages?limit=2"
        newest = (await d.call("GET", path).end()).json()
        assert [item["position"] for item in newest["items"]] == [4, 5]
        older = (await d.call("GET", f"{path}&before={newest['next']}").end()).json()
        assert [item["position"] for item in older["items"]] == [2, 3]
        onwards = (await d.call("GET", f"{path}&after=0").end()).json()
        assert [item["position"] for item in onwards["items"]] == [1, 2]
        assert (await d.call("GET", "/api/conversations/none/messages").end()).status == 404


@pytest.mark.parametrize("body", [{}, {"text": ""}, {"text": 1}, {"text": "x", "more": 1}])
async def test_wrong_bodies(body: Any) -> None:
    async with desk() as d:
        assert (await d.call("POST", "/api/conversations/c/messages", body).end()).status == 422
        assert d.asked == 0


@pytest.mark.parametrize("told", [True, False])
async def test_a_body_that_is_too_large(told: bool) -> None:
    """Whether it says so beforehand or not."""
    async with desk(body_bytes=100) as d:
        headers = {} if told else {"content_length": "1"}
        call = await d.ask("x" * 200, **headers).end()
        assert (call.status, call.json()["error"]) == (413, "TooLarge")
        assert (await d.call("GET", "/api/conversations").end()).json()["items"] == []


async def test_health_readiness_and_metrics() -> None:
    class Slow(HeldStore):
        async def conversations(self, **options: Any) -> Any:
            await self.free.wait()
            return await super().conversations(**options)

    store = Slow()
    async with ChatMemory(store) as memory:
        d = Desk(memory, store, ServeSettings(ready_seconds=0.01))
        assert (await d.call("GET", "/health").end()).json()["status"] == "ok"
        assert (await d.call("GET", "/ready").end()).json()["status"] == "ready"
        store.hold()
        slow = await d.call("GET", "/ready").end()
        assert (slow.status, slow.json()["detail"]) == (503, "the store does not answer")
        store.free.set()
        call = d.ask("q")
        await call.until("To ")
        text = (await d.call("GET", "/metrics").end()).body.decode()
        assert "diarist_detached_turns 1.0" in text
        assert "diarist_commits_total 1.0" in text
        route = 'method="POST",route="/api/conversations/{id:path}/messages",status="200"'
        assert f"diarist_http_requests_total{{{route}}} 1.0" in text
        d.go.set()
        await call.end()
        await memory.drain()
        drained = await d.call("GET", "/ready").end()
        assert (drained.status, drained.json()["detail"]) == (503, "draining")
        refused = await d.ask("late").end()
        assert (refused.status, refused.headers["retry-after"]) == (503, "5")


async def test_the_page_and_the_documentation() -> None:
    async with desk() as d:
        page = await d.call("GET", "/").end()
        assert page.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert b"://" not in page.body.replace(b"http://www.w3.org", b"")
        paths = (await d.call("GET", "/openapi.json").end()).json()["paths"]
        assert len(paths) == 11
        for methods in paths.values():
            assert all(method["summary"] and method["tags"] for method in methods.values())
