"""Clients of models. The vendors' SDKs are imported when a model of theirs is made, not before."""

from diarist.adapters.models.anthropic import AnthropicModel
from diarist.adapters.models.openai import OpenAIChatModel
from diarist.adapters.models.protocol import ChatModel
from diarist.adapters.models.scripted import Failure, Reply, ScriptedModel

__all__ = [
    "AnthropicModel",
    "ChatModel",
    "Failure",
    "OpenAIChatModel",
    "Reply",
    "ScriptedModel",
]
