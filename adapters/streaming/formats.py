"""The formats by name. The runtime finds the same ones, and third parties', through entry points."""

from __future__ import annotations

from typing import Literal

from diarist.adapters.streaming.auto import FORMATS, AutoAggregate
from diarist.runtime.aggregates import Aggregate

Format = Literal[
    "auto", "text", "openai_chat", "openai_responses", "anthropic", "gemini", "ollama", "bedrock_converse"
]


def aggregator(format: Format | str = "auto") -> Aggregate:
    """A new, empty aggregate. An unknown format is a ValueError."""
    if format == "auto":
        return AutoAggregate()
    make = FORMATS.get(format)
    if make is None:
        raise ValueError(f"format: {format!r} is none of auto, {', '.join(FORMATS)}")
    return make()
