"""One random run: clients of two replicas, a store that misbehaves, cancellations; and what must hold after it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from diarist import (
    ChatMemory,
    Conversation,
    DiaristError,
    IdempotencyError,
    Limits,
    Message,
    MessageWindow,
    Receipt,
    UserMessage,
    View,
    outcome_of,
)
from diarist.backends.memory import MemoryRepository
from diarist.runtime.ids import Key
from diarist.runtime.reader import LogReader
from diarist.runtime.views import RecordIndex
from tests.support.faulty import Chaos, Fault, FaultyRepository
from tests.support.loop import RandomLoop, environment_of

Fate = Literal["stored", "not stored", "at most once"]
READS: Sequence[Literal["ordered", "fresh", "snapshot"]] = ("ordered", "ordered", "fresh", "snapshot")
STEPS = 6
TRIES = 30
"""Repeats of one call after unknown outcomes, before a client leaves it at that."""


@dataclass
class Added:
    """One client's add, and what it was told in the end."""

    conversation: str
    texts: tuple[str, ...]
    fate: Fate
    receipt: Receipt | None = None


@dataclass
class Run:
    """What happened: everything the checks need."""

    rng: random.Random
    store: MemoryRepository = field(default_factory=MemoryRepository)
    added: dict[str, list[Added]] = field(default_factory=dict[str, list[Added]])
    views: list[tuple[str, View]] = field(default_factory=list[tuple[str, View]])
    acknowledged: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """By conversation: texts whose add any client was told of, in that order."""
    shrinks: bool = False
    """Whether the run clears and updates, so that a read need not show all that was added."""
    unhappy: int = 0
    padding: str = ""
    """Makes messages so large that few fit into a record, and one mailbox needs several."""


def _chaos(rng: random.Random) -> Chaos | None:
    if rng.random() < 0.2:
        return Chaos(random.Random(rng.getrandbits(64)))
    worst = rng.choice((0.02, 0.1, 0.25))
    faults: dict[Fault, float] = {fault: rng.uniform(0, worst) for fault in Fault if fault is not Fault.NONE}
    return Chaos(
        random.Random(rng.getrandbits(64)), faults, reads=rng.uniform(0, worst / 2), breaks=rng.uniform(0, worst / 2)
    )


def _limits(rng: random.Random) -> Limits:
    return Limits(
        mailbox=rng.choice((1, 2, 1024)),
        live=rng.choice((1, 2, 100)),
        loads=rng.choice((1, 64)),
        operations=rng.choice((2, 5, 1000)),
        bytes=rng.choice((300, 1 << 20)),
        confirm_seconds=rng.choice((0.01, 60.0)),
        conflicts=rng.choice((3, 1000)),
        timeout=rng.choice((0.3, 30.0)),
        overflow=rng.choice(("wait", "wait", "raise")),
    )


async def scenario(loop: RandomLoop) -> Run:
    """Run clients to their end, close everything, and let what is still on its way land."""
    rng = random.Random(loop.random.getrandbits(64))
    run = Run(rng, shrinks=rng.random() < 0.5)
    stores = [FaultyRepository(run.store, _chaos(rng)) for _ in range(2)]
    if rng.random() < 0.3:
        run.padding = "x" * 1000
        for store in stores:
            store.overrides = {"max_record_bytes": 6500}
    window = MessageWindow(rng.choice((4, 1000)) if run.shrinks else 1000)
    replicas = [
        ChatMemory(store, window=window, limits=_limits(rng), environment=environment_of(loop)) for store in stores
    ]
    if rng.random() < 0.3:
        replicas = replicas[:1]
    for memory in replicas:
        await memory.__aenter__()
    async with asyncio.TaskGroup() as group:
        for number in range(rng.choice((2, 3, 4, 4, 8))):
            group.create_task(_client(run, f"c{number}", replicas))
    reports = [await memory.drain(rng.choice((0.0, 60.0))) for memory in replicas]
    assert all(not report.not_executed for report in reports), "a call was left that nobody made"
    for store in stores:
        await store.land()
    return run


async def _client(run: Run, name: str, replicas: Sequence[ChatMemory]) -> None:
    rng = run.rng
    run.added[name] = []
    for step in range(STEPS):
        conversation = rng.choice(("A", "A", "B", "C"))
        memory = rng.choice(replicas)
        draw = rng.random()
        if draw < 0.6:
            await _add(run, name, f"{name}.{step}", replicas, conversation)
        elif draw < 0.85 or not run.shrinks:
            await _get(run, memory.conversation(conversation))
        elif draw < 0.9:
            await _disturbed(run, memory.conversation(conversation).clear())
        elif draw < 0.95:
            # Of itself at a record's head it makes one mailbox two records.
            await _disturbed(run, memory.conversation(conversation).rewind(rng.randint(0, 6)))
        else:
            await _disturbed(run, memory.conversation(conversation).update(_without_first))
        for _ in range(rng.randint(0, 3)):
            await asyncio.sleep(0)


def _without_first(view: Sequence[Message]) -> Sequence[Message]:
    return [*view[2:], *view[:1]]


async def _add(run: Run, name: str, text: str, replicas: Sequence[ChatMemory], conversation: str) -> None:
    """Add, and after an unknown outcome mostly repeat it with its key, also on the other replica."""
    rng = run.rng
    texts = tuple(f"{text}.{place}{run.padding}" for place in range(rng.choice((1, 1, 2))))
    key = text if rng.random() < 0.5 else None
    persistent = rng.random() < 0.8
    added = Added(conversation, texts, "not stored")
    run.added[name].append(added)
    for _ in range(TRIES if persistent else 1):
        chat = rng.choice(replicas).conversation(conversation)
        messages = [UserMessage(item) for item in texts]
        call = _disturbed(run, chat.add(*messages, idempotency_key=key))
        if key is not None and rng.random() < 0.15:
            again = rng.choice(replicas).conversation(conversation).add(*messages, idempotency_key=key)
            result = _merged(*await asyncio.gather(call, _disturbed(run, again)))
        else:
            result = await call
        if isinstance(result, Receipt):
            added.fate, added.receipt = "stored", result
            run.acknowledged.setdefault(conversation, []).extend(texts)
            return
        outcome = outcome_of(result)
        assert outcome is not None, f"an error without an outcome: {result!r}"
        assert not isinstance(result, IdempotencyError), result
        assert outcome.outcome != "executed", result
        if outcome.outcome == "unknown":
            added.fate = "at most once"
            assert outcome.idempotency_key, f"unknown, without a key to repeat it with: {result!r}"
            assert key is None or key == outcome.idempotency_key
            key = outcome.idempotency_key


def _merged(one: Any, two: Any) -> Any:
    """What is known after two calls with one key: what the surer of them was told."""
    if isinstance(one, Receipt) and isinstance(two, Receipt):
        assert (one.version, one.first, one.count) == (two.version, two.first, two.count)
        assert not (one.replayed and two.replayed) or one == two
    for result in (one, two):
        if not isinstance(result, BaseException):
            return result
    assert isinstance(one, BaseException)
    found = outcome_of(one)
    return one if found is not None and found.outcome == "unknown" else two


async def _get(run: Run, chat: Conversation) -> None:
    read = run.rng.choice(READS)
    before = list(run.acknowledged.get(chat.id, ()))
    result = await _disturbed(run, chat.get(read=read))
    if not isinstance(result, View):
        return
    run.views.append((chat.id, result))
    if not run.shrinks and read != "snapshot":
        shown = [message.text for message in result]
        missing = [text for text in before if text not in shown]
        assert not missing, f"read {read}: acknowledged before, but not seen: {missing} in {shown}"


async def _disturbed(run: Run, call: Coroutine[Any, Any, Any]) -> Any:
    """The call's result or error; some calls are cancelled at a random moment, or run into a deadline."""
    rng = run.rng
    draw = rng.random()
    if draw < 0.6:
        try:
            return await call
        except DiaristError as error:
            run.unhappy += 1
            return error
    if draw < 0.7:
        try:
            async with asyncio.timeout(rng.choice((0.0, 0.001, 0.02))):
                return await call
        except (DiaristError, TimeoutError) as error:
            call.close()
            run.unhappy += 1
            return error if outcome_of(error) else _never_started(error)
    return await _cancelled(rng, asyncio.ensure_future(call))


async def _cancelled(rng: random.Random, task: asyncio.Future[Any]) -> Any:
    for _ in range(rng.randint(1, 25)):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    try:
        return task.result()
    except DiaristError as error:
        return error
    except asyncio.CancelledError as error:
        return error if outcome_of(error) else _never_started(error)


def _never_started(error: BaseException) -> BaseException:
    """Cancelled before the call's first step: it is Python's error, and nothing was done."""
    frames: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert "result" not in frames[-2:], f"cancelled inside the runtime, without an outcome: {frames}"
    return DiaristError("never started", outcome="not_executed")


# What must hold


async def check(run: Run) -> None:
    """Every promise, on the log as it is in the end."""
    memory = ChatMemory(run.store)
    async with memory:
        logs = {name: await _log(memory.conversation(name)) for name in ("A", "B", "C")}
    for name, adds in run.added.items():
        _check_client(name, adds, logs)
    known = {text for adds in run.added.values() for item in adds for text in item.texts}
    for texts in logs.values():
        assert set(texts) <= known
    await _check_views(run)


async def _log(chat: Conversation) -> list[str]:
    page = await chat.history(limit=10_000)
    assert [item.position for item in page] == list(range(len(page)))
    versions = [item.version for item in page]
    assert versions == sorted(versions)
    return [item.message.text for item in page]


def _check_client(name: str, adds: Sequence[Added], logs: dict[str, list[str]]) -> None:
    last = dict.fromkeys(logs, -1)
    for item in adds:
        log = logs[item.conversation]
        places = [place for place, text in enumerate(log) if text == item.texts[0]]
        counts = [log.count(text) for text in item.texts]
        assert len(set(counts)) == 1, f"{name}: torn: {item} in {log}"
        allowed = {"stored": (1,), "not stored": (0,), "at most once": (0, 1)}[item.fate]
        assert counts[0] in allowed, f"{name}: {item} stands {counts[0]} times in {log}"
        if not places:
            continue
        place = places[0]
        assert tuple(log[place : place + len(item.texts)]) == item.texts
        if item.receipt is not None:
            assert (item.receipt.first, item.receipt.count) == (place, len(item.texts)), f"{name}: {item} in {log}"
            assert place > last[item.conversation], f"{name}: out of order: {item} in {log}"
            last[item.conversation] = place


async def _check_views(run: Run) -> None:
    """Every view that anybody read is what the log says of that version."""
    for name, view in run.views:
        reader = LogReader(run.store, Key("", name), RecordIndex())
        stored = await reader.view_at(view.version)
        assert [message.text for message in view] == [message.text for message in stored.messages], (
            name,
            view.version,
        )


async def main(loop: RandomLoop) -> None:
    """A run and its checks."""
    await check(await scenario(loop))
