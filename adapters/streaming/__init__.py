"""Streams of chunks to messages, for a turn's recorder or for anybody's pipeline.

`aggregator(format)` makes one message of a stream's chunks; `decode` and `decoder` make chunks of network
reads; `vercel_ui` goes the other way, from a message to the parts that the AI SDK reads in a browser.
"""

from diarist.adapters.streaming.anthropic import AnthropicAggregate
from diarist.adapters.streaming.auto import AutoAggregate
from diarist.adapters.streaming.bedrock_converse import BedrockConverseAggregate
from diarist.adapters.streaming.decoding import Decoder, decode, decoder
from diarist.adapters.streaming.formats import Format, aggregator
from diarist.adapters.streaming.gemini import GeminiAggregate
from diarist.adapters.streaming.ollama import OllamaAggregate
from diarist.adapters.streaming.openai_chat import OpenAIChatAggregate
from diarist.adapters.streaming.openai_responses import OpenAIResponsesAggregate
from diarist.adapters.streaming.text import TextAggregate
from diarist.runtime.aggregates import Aggregate
from diarist.runtime.options import Encoding

__all__ = [
    "Aggregate",
    "AnthropicAggregate",
    "AutoAggregate",
    "BedrockConverseAggregate",
    "Decoder",
    "Encoding",
    "Format",
    "GeminiAggregate",
    "OllamaAggregate",
    "OpenAIChatAggregate",
    "OpenAIResponsesAggregate",
    "TextAggregate",
    "aggregator",
    "decode",
    "decoder",
]
