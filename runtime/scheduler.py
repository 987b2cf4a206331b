"""The heart: mail becomes drafts, drafts become batches, batches become commits, outcomes become answers.

A slot does one thing at a time. With mail and a loaded state it stands in `ready`; `_flush` makes one draft of all
its mail, and one batch of what is ready. What comes while the store is busy is the next batch: there is no
artificial delay, and no task per conversation.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from diarist.runtime.draft import Answered, Draft
from diarist.runtime.errors import (
    BackendError,
    DiaristError,
    InvalidMessageError,
    NotExecutedError,
    Outcome,
    mark_outcome,
)
from diarist.runtime.operations import UNRESOLVED, Operation, Read, Status
from diarist.runtime.repository import (
    Commit,
    CommitOutcome,
    Committed,
    Conflict,
    Done,
    Failed,
    Rejected,
    Unknown,
)
from diarist.runtime.slot import Phase, Slot
from diarist.runtime.state import decode_head
from diarist.runtime.views import RecordIndex

if TYPE_CHECKING:
    from diarist.runtime.engine import Engine

logger = logging.getLogger("diarist.runtime")

MAX_ENTRIES = 256
"""Entries in one record: what a single hot conversation may take of a batch."""
BATCH_BYTES = 16 << 20
"""Payload bytes after which a batch takes no further record."""


class Scheduler:
    """Drives all slots of one memory. Synchronous but for the commits themselves."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ready: deque[Slot] = deque()
        self._reading: deque[Slot] = deque()
        """Those that only read: they need no batch, and so wait for none."""
        self._scheduled = False
        self._batches = 0
        self._drafts: set[Draft] = set()
        self._now = self._today = 0.0
        self.commits = 0
        self.conflicts = 0
        self.batch_sizes: Counter[int] = Counter()

    def enqueue(self, operation: Operation[Any], slot: Slot) -> None:
        """Put an admitted operation into the mailbox."""
        operation.status = Status.QUEUED
        if slot.mail is None:
            slot.mail = deque()
        slot.mail.append(operation)
        if slot.phase is Phase.IDLE:
            self.wake(slot)

    def in_flight(self) -> list[Operation[Any]]:
        """Operations whose record is being committed, or whose outcome is being settled."""
        return [operation for draft in self._drafts for operation, _, _ in draft.answers]

    def wake(self, slot: Slot) -> None:
        """Let an idle slot go on with its mail."""
        slot.phase = Phase.IDLE
        if not slot.mail:
            slot.mail = None
            self._engine.registry.rest(slot)
        elif slot.state is None:
            slot.phase = Phase.BUSY
            self._engine.loader.load(slot)
        else:
            slot.phase = Phase.READY
            (self._ready if _writes(slot) else self._reading).append(slot)
            self._schedule()

    @property
    def _may_commit(self) -> bool:
        return self._batches < self._engine.capabilities.batches

    def _schedule(self) -> None:
        if not self._scheduled and (self._reading or self._may_commit):
            self._scheduled = True
            self._engine.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        engine, ready = self._engine, self._ready
        most = engine.capabilities.max_batch
        # One time for the whole batch: its conversations share the objects, and the clocks are read once.
        self._now, self._today = engine.clock.monotonic(), engine.clock.time()
        self._read()
        batch: list[Draft] = []
        size = 0
        while ready and self._may_commit and len(batch) < most and size < BATCH_BYTES:
            draft = self._draft(ready.popleft())
            if draft is not None:
                batch.append(draft)
                size += draft.size
        if batch:
            self._batches += 1
            engine.start(self._commit(batch))
        if ready:
            self._schedule()

    def _read(self) -> None:
        """Answer whom no commit has to be made for, also while the store is busy with others' commits."""
        reading, self._reading = self._reading, deque()
        for slot in reading:
            if _writes(slot):
                self._ready.append(slot)
            else:
                self._draft(slot)

    # From mail to a draft

    def _draft(self, slot: Slot) -> Draft | None:
        """One record of what is in the mailbox; None if something must be read first, or nothing changes."""
        engine, mail = self._engine, slot.mail
        while mail and mail[0].status is Status.DONE:
            mail.popleft()
        if not mail:
            self.wake(slot)
            return None
        assert slot.state is not None
        if self._must_confirm(slot, mail[0], len(mail) == 1):
            slot.phase = Phase.BUSY
            engine.loader.confirm(slot)
            return None
        index = slot.index if slot.index is not None else RecordIndex()
        draft = Draft(slot, slot.state, index, engine.new_id, engine.window)
        draft.sequence, draft.started = engine.sequence, self._now
        slot.phase = Phase.FLYING
        if not self._fill(draft, mail):
            slot.phase = Phase.BUSY
            engine.loader.look_up(slot)
            return None
        if draft.entries:
            return draft if self._finish(draft) else None
        self._answer_unchanged(draft)
        return None

    def _must_confirm(self, slot: Slot, first: Operation[Any], alone: bool) -> bool:
        if slot.checked_at + self._engine.limits.confirm_seconds < self._now:
            return True
        return alone and isinstance(first, Read) and self._is_stale(slot, first)

    def _is_stale(self, slot: Slot, operation: Operation[Any]) -> bool:
        """Whether an answer from the cached state could miss what others committed before the call."""
        if operation.sequence <= slot.checked:
            return False
        return not self._engine.sole_writer or (isinstance(operation, Read) and operation.fresh)

    def _fill(self, draft: Draft, mail: deque[Operation[Any]]) -> bool:
        """Apply mail in order. False: the first operation needs something from the store before it can run."""
        most = self._engine.capabilities.max_record_bytes
        while mail:
            operation = mail[0]
            if operation.status is Status.DONE:
                mail.popleft()
                continue
            if operation.found is UNRESOLVED and not self._is_known(operation, draft):
                return bool(draft.answers)
            must_read = operation.found is None and operation.lookup is not None
            if must_read or operation.alone:
                if draft.answers:
                    return True
                if must_read:
                    return False
            if draft.entries and (len(draft.entries) >= MAX_ENTRIES or draft.size + operation.size > most):
                return True
            mail.popleft()
            self._apply(operation, draft, most)
            if operation.alone:
                return True
        return True

    def _is_known(self, operation: Operation[Any], draft: Draft) -> bool:
        """Resolve a caller's key without asking the store, if that is possible."""
        assert operation.key is not None
        done = (draft.slot.keys or {}).get(operation.key)
        if done is not None or draft.base.point is None:
            operation.found = done
            return True
        return False

    def _apply(self, operation: Operation[Any], draft: Draft, most: int) -> None:
        operation.status = Status.FLYING
        operation.tried = draft.base.version + 1
        try:
            if operation.size + 4096 > most:
                raise InvalidMessageError(f"the entry has {operation.size} bytes, the store takes {most}")
            value = operation.run(draft)
        except Exception as error:
            draft.answers.append((operation, None, _failure(error, operation)))
        else:
            draft.answers.append((operation, value, None))

    def _finish(self, draft: Draft) -> bool:
        """Encode the record. One that is too large after all is split into single operations."""
        try:
            commit = draft.finish(self._today)
        except Exception as error:
            # Of this conversation alone, whatever it is: the others of the batch are to be written.
            self._engine.failures += 1
            key = draft.slot.key
            logger.exception("a record could not be made", extra={"namespace": key.namespace, "conversation": key.id})
            draft.slot.forget()
            failure = BackendError(f"the record could not be made: {error!r}", outcome="not_executed")
            failure.__cause__ = error
            self._reject(draft, failure)
            return False
        size, most = len(commit.record.payload), self._engine.capabilities.max_record_bytes
        if size <= most:
            self._drafts.add(draft)
            return True
        self._reject(draft, InvalidMessageError(f"the record has {size} bytes, the store takes {most}"))
        return False

    def _answer_unchanged(self, draft: Draft) -> None:
        """Answers that no commit carries are given at once, as far as the state they rest on is surely not stale.

        Those that came since the last check wait for another one, but not those before them with them: calls that
        keep coming would put off the first for ever.
        """
        slot, answers = draft.slot, draft.answers
        sure = next((n for n, (operation, _, _) in enumerate(answers) if self._is_stale(slot, operation)), None)
        if sure is None:
            self._deliver(answers)
            self.wake(slot)
            return
        draft.answers = answers[sure:]
        self._put_back(draft)
        slot.phase = Phase.BUSY
        self._engine.loader.confirm(slot)
        self._deliver(answers[:sure])

    # From a batch to outcomes

    async def _commit(self, batch: Sequence[Draft]) -> None:
        engine = self._engine
        self.batch_sizes[len(batch)] += 1
        started = engine.clock.monotonic()
        open_ = dict(enumerate(batch))

        def settle(index: int, outcome: CommitOutcome) -> None:
            draft = open_.pop(index, None)
            if draft is not None:
                self.settled(draft, outcome)

        commits = [_commit_of(draft) for draft in batch]
        error: BaseException = RuntimeError("the repository did not say how a commit ended")
        try:
            await engine.repository.commit(commits, settle)
        except (Exception, asyncio.CancelledError) as raised:
            error = raised
        for index in list(open_):
            settle(index, Unknown(error))
        seconds = engine.clock.monotonic() - started
        engine.admission.commit_seconds += 0.2 * (seconds - engine.admission.commit_seconds)
        self._batches -= 1
        if self._ready:
            self._schedule()

    def settled(self, draft: Draft, outcome: CommitOutcome) -> None:
        """What became of a draft's commit."""
        if isinstance(outcome, Committed):
            self._committed(draft)
        elif isinstance(outcome, Conflict):
            self._conflicted(draft, outcome)
        elif isinstance(outcome, Rejected):
            self._landed(draft)
            self._reject(draft, outcome.error)
        elif isinstance(outcome, Failed):
            self._landed(draft)
            self._fail_changes(draft, outcome.error)
        else:
            self._engine.settler.settle(draft, outcome)

    def _landed(self, draft: Draft) -> None:
        self._drafts.discard(draft)

    def _committed(self, draft: Draft) -> None:
        slot, engine = draft.slot, self._engine
        commit = _commit_of(draft)
        self._landed(draft)
        self.commits += 1
        slot.attempts = 0
        slot.checked, slot.checked_at = draft.sequence, draft.started
        slot.state = decode_head(commit.head) if draft.deleted else draft.state
        slot.index = _pruned(draft)
        slot.view = None
        slot.remember(draft.keys)
        _tell_repeats(slot, draft.keys)
        engine.registry.weigh(slot, draft.weight)
        self._deliver(draft.answers)
        self.wake(slot)

    def committed_unseen(self, draft: Draft) -> None:
        """The record is in the log, but the log went on: answer, and load what the conversation is now."""
        self._landed(draft)
        self.commits += 1
        draft.slot.forget()
        draft.slot.remember(draft.keys)
        self._deliver(draft.answers)
        self.wake(draft.slot)

    def _conflicted(self, draft: Draft, outcome: Conflict) -> None:
        slot = draft.slot
        self._landed(draft)
        self.conflicts += 1
        slot.attempts += 1
        slot.forget()
        if slot.attempts > self._engine.limits.conflicts:
            slot.attempts = 0
            self._fail_changes(draft, self._engine.settler.gave_up(outcome))
            return
        self._put_back(draft)
        slot.phase = Phase.BUSY
        self._engine.loader.reload(slot)

    def _reject(self, draft: Draft, error: DiaristError) -> None:
        """The record can't be stored. Of several operations one is the reason: each is tried alone."""
        changing = [operation for operation, _, failure in draft.answers if failure is None and operation.changes]
        if len(changing) == 1:
            self._fail_changes(draft, error)
            return
        for operation in changing:
            operation.alone = True
        self._put_back(draft)
        self.wake(draft.slot)

    def _fail_changes(self, draft: Draft, error: DiaristError) -> None:
        """Nothing of the draft was stored: what would have changed something fails, the rest runs again."""
        slot = draft.slot
        failed = {operation for operation, _, failure in draft.answers if failure is None and operation.changes}
        kept = [answer for answer in draft.answers if answer[0] not in failed]
        draft.answers = kept
        self._put_back(draft)
        for operation in failed:
            self._engine.finish(operation, None, self._engine.settler.copy(error, operation))
        self.wake(slot)

    def _put_back(self, draft: Draft) -> None:
        """The draft's operations go to the front of the mailbox, in order; whose caller gave up is dropped."""
        slot = draft.slot
        mail = slot.mail if slot.mail is not None else deque[Operation[Any]]()
        slot.mail = mail
        for operation, _, _ in reversed(draft.answers):
            if operation.future.done() and not operation.persistent:
                self._engine.finish(operation, None, NotExecutedError("the caller gave up"))
            else:
                operation.reset()
                mail.appendleft(operation)

    def _deliver(self, answers: Sequence[Answered]) -> None:
        for operation, value, error in answers:
            self._engine.finish(operation, value, error)


def _writes(slot: Slot) -> bool:
    """Whether something in the mailbox may change the conversation."""
    return any(operation.changes for operation in slot.mail or ())


def _commit_of(draft: Draft) -> Commit:
    assert draft.commit is not None
    return draft.commit


def _failure(error: Exception, operation: Operation[Any]) -> Exception:
    """What `apply` raised, as the caller gets it."""
    if isinstance(error, DiaristError):
        return error
    if isinstance(error, StopIteration):
        # A future refuses it: it would end the generator that waits for it.
        stopped = error
        error = RuntimeError("the function raised StopIteration")
        error.__cause__ = stopped
    mark_outcome(error, Outcome("not_executed", operation.key))
    return error


def _tell_repeats(slot: Slot, keys: Mapping[str, Done]) -> None:
    """Mail that was looked up together with what is done now must learn of it."""
    if keys:
        for operation in slot.mail or ():
            if operation.key is not None and operation.key in keys:
                operation.found = keys[operation.key]


def _pruned(draft: Draft) -> RecordIndex | None:
    """The slot's index, without records that long left the view."""
    runs = draft.state.view.runs
    if draft.deleted or not runs:
        return None
    if len(draft.index.positions) > 64 + 2 * len(draft.state.view.messages):
        return draft.index.pruned(runs)
    return draft.index
