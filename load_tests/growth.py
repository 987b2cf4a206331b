"""What an add costs in a conversation of 10, 100, 1,000 and 10,000 messages.

One add of a question and an answer at a time, in memory, so that nothing but the runtime is measured: with the usual
window of 20 messages, and with one that is larger than the conversation.
"""

from __future__ import annotations

from functools import partial

from diarist import AssistantMessage, ChatMemory, MessageWindow, UserMessage
from diarist.backends.memory import MemoryRepository
from load_tests.measure import Clock, Options, Report, Work, interleaved, microseconds, ratios, run, show, spread

LENGTHS = (10, 100, 1_000, 10_000)
TEXT = "x" * 340


async def grow(clock: Clock, length: int, window: int, adds: int) -> int:
    """Fill a conversation up to `length` messages, then time adds."""
    async with ChatMemory(MemoryRepository(), window=MessageWindow(window)) as memory:
        chat = memory.conversation("long")
        for start in range(0, length, 1_000):
            await chat.add(*(UserMessage(TEXT) for _ in range(min(1_000, length - start))))
        with clock:
            for _ in range(adds):
                await chat.add(UserMessage(TEXT), AssistantMessage(TEXT))
        assert (await chat.history(before=1 << 60, limit=1))[0].position == length + 2 * adds - 1
        assert len(await chat.get()) == min(window, length + 2 * adds)
    return adds


async def main(chosen: Options, report: Report) -> None:
    adds = 20 if chosen.quick else 200
    report.settings |= {"lengths": LENGTHS, "adds": adds, "text_bytes": len(TEXT)}
    for title, window in (("window of 20", 20), ("window larger than the conversation", 1_000_000)):
        work: dict[str, Work] = {
            f"{length:,}": partial(grow, length=length, window=window, adds=adds) for length in LENGTHS
        }
        results = await interleaved(work, chosen.rounds)
        least = results["10"]
        rows = [
            [name, microseconds(series.wall), microseconds(series.cpu), show(spread(ratios(least.wall, series.wall)))]
            for name, series in results.items()
        ]
        columns = ["messages before", "us per add", "us of CPU", "times the cost at 10"]
        report.table(f"Cost of an add, {title}", columns, rows)
        report.target(f"at 10,000 against 10, {title}", ratios(least.wall, results["10,000"].wall), most=1.2)


if __name__ == "__main__":
    run("Does an add cost more in a long conversation?", main)
