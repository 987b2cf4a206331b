"""Format `openai_responses`: the events of a streamed Response.

https://platform.openai.com/docs/api-reference/responses-streaming. What the terminal event's response holds
counts alone; where it is empty (gateways, `store: false`) the events of the items do.
"""

from __future__ import annotations

from typing import NamedTuple

from diarist.adapters.streaming.chunks import Fields, fields, listed, number, plain, word
from diarist.adapters.streaming.core import Choice, StreamAggregate
from diarist.adapters.streaming.openai_responses_items import Content, Item, slot_of, text_in
from diarist.adapters.streaming.pieces import collect, note_rest

_TERMINAL = frozenset({"completed", "incomplete", "failed", "cancelled"})
# The request's own long fields, which every response repeats, are no part of the answer.
_RESPONSE = frozenset(
    {"id", "object", "created_at", "model", "status", "output", "output_text", "usage", "error"}
    | {"instructions", "tools", "text", "prompt", "input", "output_parsed"}
)
_FLAT_ERROR = frozenset({"type", "sequence_number"})


class _Slot(NamedTuple):
    kind: str
    slot: str
    index_key: str
    value_key: str


_SLOTS = {
    "output_text": _Slot("message", "text", "content_index", "text"),
    "refusal": _Slot("message", "refusal", "content_index", "refusal"),
    "reasoning_summary_text": _Slot("reasoning", "summary", "summary_index", "text"),
    "reasoning_text": _Slot("reasoning", "content", "content_index", "text"),
    "function_call_arguments": _Slot("function_call", "arguments", "", "arguments"),
    "custom_tool_call_input": _Slot("custom_tool_call", "input", "", "input"),
    "code_interpreter_call_code": _Slot("code_interpreter_call", "code", "", "code"),
    "mcp_call_arguments": _Slot("mcp_call", "arguments", "", "arguments"),
}
_DELTAS = {f"response.{name}.delta": slot for name, slot in _SLOTS.items()}
_DONES = {f"response.{name}.done": slot for name, slot in _SLOTS.items()}
_PARTS = {
    "response.content_part.added": "content_index",
    "response.content_part.done": "content_index",
    "response.reasoning_summary_part.added": "summary_index",
    "response.reasoning_summary_part.done": "summary_index",
}


class OpenAIResponsesAggregate(StreamAggregate):
    """One choice; complete with a completed or an incomplete response."""

    def __init__(self) -> None:
        super().__init__()
        self._items: list[Item] = []
        self._by_id: dict[tuple[str, str], Item] = {}
        self._by_place: dict[tuple[int | None, str], Item] = {}
        self._final: list[Item] = []
        self._finish_reason: str | None = None
        self._complete = False

    def _take(self, chunk: Fields) -> bool:
        kind = chunk.get("type")
        if (slot := _DELTAS.get(kind)) is not None:  # type: ignore[arg-type]
            delta = chunk.get("delta")
            if isinstance(delta, str) and delta:
                content = self._content(slot, chunk)
                content.fragments.append(delta)
                if logprobs := chunk.get("logprobs"):
                    collect(content.extras, "logprobs", listed(logprobs))
            return True
        name = word(kind)
        if name is None:
            return self._typeless(chunk)
        if name in _DONES:
            self._done(_DONES[name], chunk)
        elif name in _PARTS:
            self._part(name, chunk)
        elif name in ("response.output_item.added", "response.output_item.done"):
            self._item(chunk, is_done=name.endswith(".done"))
        elif name == "response.output_text.annotation.added":
            content = self._content(_SLOTS["output_text"], chunk)
            collect(content.extras, "annotations", [chunk.get("annotation")])
        elif name in ("error", "response.error"):
            flat = {key: value for key, value in chunk.items() if key not in _FLAT_ERROR}
            self._fail(chunk.get("error") or flat)
        elif name.startswith("response."):
            if (response := fields(chunk.get("response"))) is not None or name[9:] in _TERMINAL:
                self._response(name, response or {})
        else:
            return False
        return True

    def _typeless(self, chunk: Fields) -> bool:
        """A bare error, or the whole response of a server that doesn't stream."""
        if chunk.get("object") == "response":
            self._response("", chunk)
            return True
        if error := chunk.get("error"):
            self._fail(error)
        return bool(chunk.get("error"))

    def _response(self, name: str, response: Fields) -> None:
        self._identify(response.get("id"), response.get("model"))
        self._count(response.get("usage"))
        note_rest(self._extras, response, _RESPONSE)
        told = name.removeprefix("response.")
        status = word(response.get("status"))
        if told in _TERMINAL or (status in _TERMINAL and told in ("", "done")):
            self._terminal(response, status if status in _TERMINAL else told)
        elif error := response.get("error"):
            self._fail(error)

    def _terminal(self, response: Fields, status: str | None) -> None:
        reason = word((fields(response.get("incomplete_details")) or {}).get("reason"))
        self._finish_reason = reason or status
        self._complete = status in ("completed", "incomplete")
        if status == "failed" or response.get("error"):
            self._fail(response.get("error"))
        output = [entry for entry in listed(response.get("output")) if fields(entry) is not None]
        if output:
            self._final = [self._whole(entry, index) for index, entry in enumerate(output)]
            self._id = word(response.get("id")) or self._id
            self._model = word(response.get("model")) or self._model
            if usage := fields(response.get("usage")):
                self._usage = {}
                self._count(usage)

    def _whole(self, entry: object, index: int) -> Item:
        """An item of the terminal response. Some leave out the encrypted content that it had when done
        (openai-python#3615); without that the vendor doesn't accept a reasoning item again.
        """
        item = Item.whole(entry, index)
        by_id = self._by_id.get((word(item.done.get("id")) or "", item.kind))
        before = by_id or self._by_place.get((index, item.kind))
        if item.kind == "reasoning" and before is not None:
            item.added = {"encrypted_content": before.field("encrypted_content")}
        return item

    def _item(self, chunk: Fields, *, is_done: bool) -> None:
        entry = fields(chunk.get("item"))
        kind = word(entry.get("type")) if entry is not None else None
        if entry is None or kind is None:
            return
        index, item_id = number(chunk.get("output_index")), word(entry.get("id"))
        item = self._by_id.get((item_id, kind)) if item_id else None
        if item is None:
            item = self._by_place.get((index, kind))
            if item is None or _is_another(item, entry, is_done=is_done):
                item = self._open(kind, index)
        if item_id:
            self._by_id[item_id, kind] = item
        if is_done:
            item.done = plain(chunk.get("item"))
        else:
            item.added = plain(chunk.get("item"))

    def _find(self, kind: str, chunk: Fields) -> Item:
        """The item of an event: by item id, else by output index and type, else a new one.

        GitHub Copilot's endpoint names another id in every event, so an unknown id says nothing.
        """
        item_id = chunk.get("item_id")
        item = self._by_id.get((item_id, kind)) if isinstance(item_id, str) else None
        if item is None:
            index = number(chunk.get("output_index"))
            item = self._by_place.get((index, kind))
            if item is None:
                item = self._open(kind, index)
                if found := word(item_id):
                    item.added = {"id": found}
                    self._by_id[found, kind] = item
        return item

    def _open(self, kind: str, index: int | None) -> Item:
        item = Item(kind, index)
        self._items.append(item)
        self._by_place[index, kind] = item
        return item

    def _content(self, slot: _Slot, chunk: Fields) -> Content:
        at = chunk.get(slot.index_key) if slot.index_key else 0
        return self._find(slot.kind, chunk).content(at if type(at) is int else number(at) or 0, slot.slot)

    def _done(self, slot: _Slot, chunk: Fields) -> None:
        if (whole := word(chunk.get(slot.value_key))) is not None:
            self._content(slot, chunk).whole = whole

    def _part(self, name: str, chunk: Fields) -> None:
        """A content part or summary part, as it was added or whole."""
        part = fields(chunk.get("part"))
        if part is None:
            return
        slot = slot_of(part)
        item = self._find("reasoning" if slot in ("content", "summary") else "message", chunk)
        content = item.content(number(chunk.get(_PARTS[name])) or 0, slot)
        if name.endswith(".done"):
            content.whole = text_in(part) or content.whole
        else:
            content.started = text_in(part)
        if slot == "text":
            content.annotate(part)
        content.block = plain(chunk.get("part"))

    def _choices(self) -> list[Choice]:
        choice = Choice()
        choice.finish_reason = self._finish_reason
        for item in self._final or self._in_order():
            choice.pieces.extend(item.pieces(choice.refusal))
        return [choice]

    def _in_order(self) -> list[Item]:
        return sorted(self._items, key=lambda item: (item.index is None, item.index or 0))

    def _is_complete(self) -> bool:
        return self._complete


def _is_another(item: Item, entry: Fields, *, is_done: bool) -> bool:
    """Whether an item event with an unknown id speaks of another item than the one in its place.

    Gateways put several calls on one output index (litellm#36375); others change the id of one item between
    its events. So: calls differ by call id; else an item is added once and done once.
    """
    known, told = word(item.field("call_id")), word(entry.get("call_id"))
    if known is not None and told is not None:
        return known != told
    return bool(item.done) if is_done else bool(item.done or "type" in item.added)
