"""Operations that change which messages are in view: update and rewind."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from diarist.runtime.errors import InvalidMessageError, NotFoundError
from diarist.runtime.intake import Given, Intake
from diarist.runtime.messages import Message
from diarist.runtime.operations import Change
from diarist.runtime.purging import check_not_purged
from diarist.runtime.results import Receipt
from diarist.runtime.state import State
from diarist.runtime.views import EMPTY_VIEW, ViewState, prefix

if TYPE_CHECKING:
    from diarist.runtime.draft import Draft
    from diarist.runtime.reader import LogReader

UpdateFunction = Callable[[Sequence[Message]], Iterable[Given]]


class Update(Change):
    """Replace the view by what a plain function makes of it."""

    __slots__ = ("function", "guard", "intake")
    kind = "update"

    def __init__(
        self,
        future: asyncio.Future[Receipt],
        function: UpdateFunction,
        intake: Intake,
        guard: Callable[[bool], None],
        **common: Any,
    ) -> None:
        super().__init__(future, **common)
        self.function = function
        self.intake = intake
        self.guard = guard

    def apply(self, draft: Draft) -> Receipt:
        view = draft.state.view
        result = self._call(view.messages)
        chosen, lines = self._known(view, result)
        if len(chosen) == len(view.messages) and all(map(_same, chosen, view.messages)):
            return self.nothing(draft)
        new, shown = draft.place(chosen, view, 0, lines)
        return draft.append(self, "update", new, shown)

    def _call(self, messages: Sequence[Message]) -> list[Given]:
        self.guard(True)
        try:
            result = self.function(list(messages))
            if inspect.isawaitable(result):
                if inspect.iscoroutine(result):
                    result.close()
                raise InvalidMessageError("update takes a plain function: it may run again and must not wait")
            return list(result)
        finally:
            self.guard(False)

    def _known(self, view: ViewState, result: Sequence[Given]) -> tuple[list[Message], list[bytes]]:
        """The messages to show, with those in view replaced by the very same objects; lines of the new ones."""
        identities = {id(message) for message in view.messages}
        by_id: dict[str | None, Message] | None = None
        chosen: list[Message] = []
        lines: list[bytes] = []
        for item in result:
            if id(item) in identities and isinstance(item, Message):
                chosen.append(item)
                continue
            message = item if isinstance(item, Message) else Message.from_dict(item)
            if by_id is None:
                by_id = {known.id: known for known in view.messages}
            known = by_id.get(message.id) if message.id is not None else None
            if known is not None and known == message:
                chosen.append(known)
            else:
                lines += self.intake.lines([message])
                chosen.append(message)
        return chosen, lines


def _same(one: object, other: object) -> bool:
    return one is other


class _Target(NamedTuple):
    """What was read of a log: the view at a version of a life, cut where it is to be cut."""

    life: str | None
    version: int
    view: ViewState


class Rewind(Change):
    """Show the view as it was at a version, or cut at a message. What was read for it is in `target`."""

    __slots__ = ("after", "before", "target", "version")
    kind = "rewind"

    def __init__(
        self,
        future: asyncio.Future[Receipt],
        *,
        version: int | None,
        before: str | None,
        after: str | None,
        **common: Any,
    ) -> None:
        super().__init__(future, **common)
        self.version = version
        self.before = before
        self.after = after
        self.target: _Target | None = None

    @property
    def lookup(self) -> Callable[[State, LogReader], Awaitable[None]] | None:
        return None if self.target is not None or self.version == 0 else self._read

    def reset(self) -> None:
        super().reset()
        self.target = None

    async def _read(self, state: State, reader: LogReader) -> None:
        if self.version is not None:
            self.target = _Target(state.life, self.version, await reader.view_at(self.version))
            return
        view, version = self._cut(state.view), state.version
        if view is None:
            version = await reader.find(self.before or self.after or "") or 0
            view = self._cut(await reader.view_at(version))
        if view is None:
            raise NotFoundError("no message of that id is in the conversation")
        self.target = _Target(state.life, version, view)

    def _cut(self, view: ViewState) -> ViewState | None:
        wanted = self.before or self.after
        for place in range(len(view.messages) - 1, -1, -1):
            if view.messages[place].id == wanted:
                return prefix(view, place if self.before else place + 1)
        return None

    def apply(self, draft: Draft) -> Receipt:
        state = draft.state
        view = self._target(draft)
        if view.runs == state.view.runs:
            return self.nothing(draft)
        receipt = draft.append(self, "rewind", (), view)
        state.note(rewound=receipt.version)
        return receipt

    def _target(self, draft: Draft) -> ViewState:
        state = draft.state
        if self.version is None:
            cut = self._cut(state.view)
            if cut is not None:
                return cut
        target = self.target
        if self.version == 0 or target is None:
            return EMPTY_VIEW
        if target.life is None or target.life != state.life or target.version > state.version:
            # Either it is not there, or others wrote since this state was read: then this is judged again.
            raise NotFoundError(f"the conversation has no version {target.version}")
        check_not_purged(state, draft.index, target.view)
        return target.view
