"""Which tool call a fragment of a Chat Completions stream belongs to.

Servers disagree about index and id: every fragment with index 0, no index at all, ids that change or repeat,
placeholders. The order of the questions is the rule, see `CallBook.find`.
"""

from __future__ import annotations

from diarist.adapters.streaming.chunks import Fields, fields, number, word
from diarist.adapters.streaming.pieces import Call, Pieces, note, note_rest

_ENTRY = frozenset({"index", "id", "type", "function", "custom"})
_BODY = frozenset({"name", "arguments", "input"})
_PLAIN_ENTRY = frozenset({"index", "id", "type", "function"})
_PLAIN_BODY = frozenset({"name", "arguments"})
_NONE: Fields = {}


def call_id(value: object) -> str | None:
    """An id; the text `null` is the Mistral SDK's default and no id (langchainjs#11505)."""
    found = word(value)
    return None if found == "null" else found


class CallBook:
    """The calls of one choice, found by index and by id; they stand among the choice's pieces."""

    __slots__ = ("_by_id", "_by_index", "_last", "_legacy", "_pieces")

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._by_index: dict[int, Call] = {}
        self._by_id: dict[str, Call] = {}
        self._last: Call | None = None
        self._legacy: Call | None = None

    def take(self, entry: Fields) -> None:
        """One entry of `delta.tool_calls`."""
        body, custom = fields(entry.get("function")), entry.get("type") == "custom"
        if body is None:
            body = fields(entry.get("custom"))
            custom = custom or body is not None
        body = body or _NONE
        found = call_id(entry.get("id"))
        name = word(body.get("name"))
        arguments = body.get("arguments")
        if arguments is None:
            arguments = body.get("input")
        call = self.find(number(entry.get("index")), found, name, has_more=bool(arguments))
        if call is None:
            return
        call.identify(found, name)
        if call.id is not None:
            self._by_id.setdefault(call.id, call)
        call.take(arguments)
        if custom:
            call.kind = "custom"
        if not (_PLAIN_ENTRY.issuperset(entry) and _PLAIN_BODY.issuperset(body)):
            self._rest(call, entry, body)

    def take_legacy(self, body: Fields) -> None:
        """`delta.function_call`, deprecated: one call without an id."""
        if self._legacy is None:
            self._legacy = Call()
            # The chat format has one place for the old form; beside tool calls the call is one of them.
            self._legacy.kind = "function_call" if self._last is None else "function"
            self._pieces.append(self._legacy)
        self._legacy.identify(None, body.get("name"))
        self._legacy.take(body.get("arguments"))
        note_rest(self._legacy.extras, body, _PLAIN_BODY)

    def find(self, index: int | None, found: str | None, name: str | None, *, has_more: bool) -> Call | None:
        """The call of a fragment: by index; on a used one a known id decides; another id with a name is new.

        Without an index a known id decides, else a name opens a call, else the newest call goes on. None for
        an entry that says nothing and belongs to nothing.
        """
        if index is not None:
            slot = self._by_index.get(index)
            if slot is None:
                return self._open(index)
            return self._on_used_index(slot, index, found, name)
        if found is not None and found in self._by_id:
            return self._by_id[found]
        if name is not None or self._last is None:
            return self._open(None) if name or found or has_more else None
        return self._last

    def _on_used_index(self, slot: Call, index: int, found: str | None, name: str | None) -> Call:
        if found is None or found == slot.id:
            return slot
        known = self._by_id.get(found)
        if known is not None:
            return known
        if name is None or (slot.id is None and slot.name in (None, name)):
            return slot
        return self._open(index)

    def _open(self, index: int | None) -> Call:
        call = self._last = Call()
        self._pieces.append(call)
        if index is not None:
            self._by_index[index] = call
        if self._legacy is not None:
            self._legacy.kind = "function"
        return call

    def _rest(self, call: Call, entry: Fields, body: Fields) -> None:
        """Vendor data of a call (Gemini's signature in `extra_content`); in its function, under that key."""
        note_rest(call.extras, entry, _ENTRY)
        inner = dict(call.extras.get(call.kind) or {})
        note_rest(inner, body, _BODY)
        note(call.extras, call.kind, inner or None)
