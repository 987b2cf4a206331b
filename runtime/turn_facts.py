"""What one reads of a turn: its messages for the model, its answer, and how it went."""

from __future__ import annotations

from typing import Any

from diarist.runtime.converters import to_anthropic, to_openai
from diarist.runtime.engine import Engine
from diarist.runtime.errors import NotFoundError
from diarist.runtime.matching import for_model, systems_first
from diarist.runtime.messages import AssistantMessage, Message
from diarist.runtime.results import Receipt
from diarist.runtime.turn_entries import Ground
from diarist.runtime.turn_policy import windowed
from diarist.runtime.views import EMPTY_VIEW, ViewState


class TurnFacts:
    """The part of a `Turn` that is only read by its users."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.replayed = False
        """The key is done: `answer` is the stored one, and the model need not be called. At the turn's end also if
        another process was faster with the key."""
        self.resumed = False
        """An earlier turn with the key did not end: its rounds are in `messages`."""
        self.overtaken = False
        """Others wrote between the turn's start and its commit."""
        self._view: ViewState = EMPTY_VIEW
        self._ground: Ground | None = None
        self._own: list[Message] = []
        self._answer: AssistantMessage | None = None
        self._receipt: Receipt | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """The view and the turn's own messages, for the model: system messages first, no unmatched tool messages."""
        self._check_started()
        shown = windowed(self._engine.window, tuple(self._view.messages), self._own)
        return systems_first(shown) if self._show_unmatched else for_model(shown)

    @property
    def _show_unmatched(self) -> bool:
        return getattr(self._engine.window, "show_unmatched", False)

    def to_openai(self) -> list[dict[str, Any]]:
        """`messages` for OpenAI's Chat Completions."""
        return to_openai(self.messages, show_unmatched=self._show_unmatched)

    def to_anthropic(self) -> dict[str, Any]:
        """`messages` as `system` and `messages` for Anthropic's Messages."""
        return to_anthropic(self.messages, show_unmatched=self._show_unmatched)

    @property
    def started(self) -> bool:
        """Whether the conversation was read: from then on there are `messages`."""
        return self._ground is not None

    @property
    def answer(self) -> AssistantMessage:
        """The last assistant message; `NotFoundError` before there is one."""
        if self._answer is None:
            raise NotFoundError("the turn has no answer yet")
        return self._answer

    @property
    def receipt(self) -> Receipt:
        """The receipt of the turn's last entry; `NotFoundError` before there is one."""
        if self._receipt is None:
            raise NotFoundError("nothing of the turn was stored yet")
        return self._receipt

    def _check_started(self) -> None:
        if self._ground is None:
            raise RuntimeError("enter the turn first: async with chat.turn(…) as turn")
