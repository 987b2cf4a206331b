"""Windows: which messages of a conversation the model goes on seeing. Pure functions.

A turn is a user message and all that follows it up to the next one. What stands before the first user message
(a greeting, say) goes like the rest of what is old; where no user message is left to start on, it counts as a
turn of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

from diarist.runtime.messages import Message, SystemMessage, UserMessage

Window = Callable[[Sequence[Message], Sequence[Message]], Sequence[Message]]
"""(messages in view, new messages) -> messages in view. It returns the very objects it was given, changes nothing,
and does no I/O: it may be applied again to another view when a commit finds a conflict."""


NEAR = 16
"""How many messages past its limit `MessageWindow.cut` looks for the next turn."""


@dataclass(frozen=True, slots=True, repr=False)
class MessageWindow:
    """The newest `max_messages` messages, system messages counted, cut at a turn.

    Three laws: a system message that equals none in view replaces all that are in view; a system message is never
    evicted; the cut moves forward to the next user message, so that the window starts on a whole turn.

    The limit is exceeded only by system messages, and by the latest turn if it alone is longer
    (`keep_last_turn`; without it such a turn is evicted as a whole, the running one too). `dedupe_system`: a
    system message equal to one in view, or to an earlier one of the same add, is not stored again. Equality is
    `Message.same_content`. `snap_to_turn=False` cuts anywhere, though not into a latest turn that is to be kept.

    `ValueError` if `max_messages` is no integer of at least 1.
    """

    max_messages: int = 20
    keep_last_turn: bool = field(default=True, kw_only=True)
    dedupe_system: bool = field(default=True, kw_only=True)
    snap_to_turn: bool = field(default=True, kw_only=True)
    show_unmatched: bool = field(default=False, init=False)
    """Whether readers get tool calls without results and results without calls, too. Only `spring_ai` wants that."""

    def __post_init__(self) -> None:
        if type(self.max_messages) is not int or self.max_messages < 1:
            raise ValueError("max_messages must be greater than 0")

    @classmethod
    def spring_ai(cls, max_messages: int = 20, *, snap_to_turn: bool = True) -> Self:
        """`MessageWindowChatMemory` of Spring AI 2.x, or with `snap_to_turn=False` of 1.x, flaws included.

        Equal system messages pile up, and a turn longer than the limit wipes itself. System messages are equal
        by text and metadata there. Only they are ever compared, so that it plays no role here that its user
        messages are equal without regard to their media.
        """
        window = cls(max_messages, keep_last_turn=False, dedupe_system=False, snap_to_turn=snap_to_turn)
        object.__setattr__(window, "show_unmatched", True)
        return window

    def __repr__(self) -> str:
        if self.show_unmatched:
            return f"MessageWindow.spring_ai({self.max_messages}, snap_to_turn={self.snap_to_turn})"
        return (
            f"MessageWindow({self.max_messages}, keep_last_turn={self.keep_last_turn}, "
            f"dedupe_system={self.dedupe_system}, snap_to_turn={self.snap_to_turn})"
        )

    def __call__(self, view: Sequence[Message], new: Sequence[Message]) -> tuple[Message, ...]:
        kept, added = tuple(view), tuple(new)
        if instructions := _systems(added):
            kept, added = self._instructed(kept, added, instructions)
        messages = kept + added
        surplus = len(messages) - self.max_messages
        if surplus <= 0:
            return messages
        start = self._start(messages, surplus)
        return (*_systems(messages[:start]), *messages[start:])

    def cut(self, messages: Sequence[Message], new: Sequence[Message]) -> int | None:
        """The quick answer: how many of the first `messages` leave, if that is all that happens.

        `messages` end with `new`. None if system messages play a role, or the next turn is far: then the window has
        to be called. A look at the first few messages takes a fifth of the time of a call.
        """
        for message in new:
            if isinstance(message, SystemMessage):
                return None
        surplus = len(messages) - self.max_messages
        if surplus <= 0 or not self.snap_to_turn:
            return 0 if surplus <= 0 else None
        for place, message in enumerate(messages[: surplus + NEAR]):
            if isinstance(message, SystemMessage):
                return None
            if place >= surplus and isinstance(message, UserMessage):
                return place
        return None

    def _instructed(
        self, view: tuple[Message, ...], new: tuple[Message, ...], instructions: Sequence[SystemMessage]
    ) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
        """View and new messages, without the system messages that are replaced or stored already."""
        old = _systems(view)
        replaced = not all(self._is_among(message, old) for message in instructions)
        if self.dedupe_system:
            new = self._unseen(new, [] if replaced else old)
        if replaced and old:
            view = tuple(message for message in view if not isinstance(message, SystemMessage))
        return view, new

    def _unseen(self, new: tuple[Message, ...], seen: list[SystemMessage]) -> tuple[Message, ...]:
        """The new messages without system messages that equal one in `seen`, or an earlier new one."""
        fresh: list[Message] = []
        for message in new:
            if isinstance(message, SystemMessage):
                if self._is_among(message, seen):
                    continue
                seen.append(message)
            fresh.append(message)
        return tuple(fresh)

    def _is_among(self, message: SystemMessage, others: Sequence[SystemMessage]) -> bool:
        if self.show_unmatched:
            return any(message.text == other.text and message.metadata == other.metadata for other in others)
        return any(message is other or message.same_content(other) for other in others)

    def _start(self, messages: Sequence[Message], surplus: int) -> int:
        """Where the window starts; of what stands before it only the system messages stay."""
        cut = _after(messages, surplus)
        if not self.snap_to_turn:
            last = _last_turn(messages) if self.keep_last_turn else None
            return cut if last is None else min(cut, last)
        start = _next_turn(messages, cut)
        if start is not None:
            return start
        return (_last_turn(messages) or 0) if self.keep_last_turn else len(messages)


def _after(messages: Sequence[Message], count: int) -> int:
    """The place behind the first `count` messages, system messages not counted; the end if there are fewer."""
    for place in range(len(messages)):
        if not isinstance(messages[place], SystemMessage):
            if count == 0:
                return place
            count -= 1
    return len(messages)


def _next_turn(messages: Sequence[Message], start: int) -> int | None:
    for place in range(start, len(messages)):
        if isinstance(messages[place], UserMessage):
            return place
    return None


def _last_turn(messages: Sequence[Message]) -> int | None:
    for place in range(len(messages) - 1, -1, -1):
        if isinstance(messages[place], UserMessage):
            return place
    return None


def _systems(messages: Sequence[Message]) -> list[SystemMessage]:
    return [message for message in messages if isinstance(message, SystemMessage)]
