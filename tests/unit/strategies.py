"""Hypothesis strategies for conversations and messages, for any test that wants them."""

from __future__ import annotations

from hypothesis import strategies as st

from diarist.runtime.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from diarist.runtime.parts import ToolCall

_TEXTS = st.sampled_from(["", "a", "b", "c"])
_CALL_IDS = st.sampled_from([None, "call_0", "call_1", "call_2"])
_NAMES = st.sampled_from([None, "look", "find"])

systems: st.SearchStrategy[Message] = _TEXTS.map(SystemMessage)
users: st.SearchStrategy[Message] = _TEXTS.map(UserMessage)
small_calls = st.builds(ToolCall, _CALL_IDS, st.sampled_from(["look", "find"]))
assistants: st.SearchStrategy[Message] = st.builds(AssistantMessage, _TEXTS, st.lists(small_calls, max_size=3))
results: st.SearchStrategy[Message] = st.builds(ToolMessage, _TEXTS, _CALL_IDS, _NAMES)

bodies = st.one_of(users, assistants, results)
"""Messages other than system messages, of few contents, so that equal ones are common."""
small_messages = st.one_of(systems, bodies)
chats = st.lists(small_messages, max_size=14)
"""Any order of messages, most of them nothing that a provider would take."""
