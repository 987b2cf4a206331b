"""What a turn shows its model, and what an unfinished one may leave. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from diarist.runtime.intake import Intake
from diarist.runtime.log import lazy_message
from diarist.runtime.matching import rounds
from diarist.runtime.messages import AssistantMessage, Message, SystemMessage
from diarist.runtime.recorder import says_something
from diarist.runtime.windows import Window

Choice = Callable[[Sequence[Message], Sequence[Message]], Sequence[Message]]
"""(messages in view, given messages) -> those of the given ones that are new."""


def chosen(
    new: Sequence[Message], lines: Sequence[bytes], messages: Sequence[Message]
) -> tuple[list[bytes], list[Message]]:
    """Of lines and their messages those that are new; `new` has some of the very same objects."""
    wanted = {id(message) for message in new}
    pairs = [pair for pair in zip(lines, messages, strict=True) if id(pair[1]) in wanted]
    return [line for line, _ in pairs], [message for _, message in pairs]


def windowed(window: Window, view: Sequence[Message], own: Sequence[Message]) -> tuple[Message, ...]:
    """What the window would show, as long as it shows the turn's latest message.

    A system message doesn't count: the window may know an equal one.
    """
    shown = tuple(window(view, own))
    said = [message for message in own if not isinstance(message, SystemMessage)]
    if said and not any(message is said[-1] for message in shown):
        return (*view, *own)
    return shown


def without_open_calls(
    stored: Sequence[Message], lines: Sequence[bytes], intake: Intake
) -> tuple[list[bytes], set[str]]:
    """The lines to store, and the ids of `stored` messages that must leave the view.

    A call that has no result moves into the `extras` of its message; a message that says nothing else is left out.
    A round that was stored before all its results came leaves the view as a whole: the log keeps it.
    """
    messages = [*stored, *map(lazy_message, lines)]
    kept: list[bytes | None] = [*(None for _ in stored), *lines]
    hidden: set[int] = set()
    for item in rounds(messages):
        if item.is_complete:
            continue
        if item.place < len(stored):
            hidden |= {item.place, *item.answers.values()}
        else:
            message = messages[item.place]
            assert isinstance(message, AssistantMessage)
            closed = _closed(message, item.answers)
            kept[item.place] = intake.lines([closed])[0] if says_something(closed) else None
    left = [line for place, line in enumerate(kept) if line is not None and place not in hidden]
    return left, {found for place in hidden if place < len(stored) and (found := messages[place].id)}


def _closed(message: AssistantMessage, answered: Collection[int]) -> AssistantMessage:
    calls = [call for place, call in enumerate(message.tool_calls) if place in answered]
    left = [call.to_dict() for place, call in enumerate(message.tool_calls) if place not in answered]
    return message.replace(tool_calls=calls, extras={**message.extras, "interrupted_tool_calls": left})
