"""Diarist inside Starlette and FastAPI: a lifespan, a getter, error answers, and turns as streamed responses.

For FastAPI's dependency injection see `diarist.adapters.asgi.fastapi`.
"""

from diarist.adapters.asgi.errors import error_response, exception_handlers
from diarist.adapters.asgi.lifespan import lifespan, memory_of
from diarist.adapters.asgi.responses import (
    AttachmentResponse,
    Model,
    TurnResponse,
    raw_response,
    sse_response,
    text_response,
    ui_response,
)
from diarist.adapters.asgi.wires import EventWire, RawWire, TextWire, UIWire, Wire

__all__ = [
    "AttachmentResponse",
    "EventWire",
    "Model",
    "RawWire",
    "TextWire",
    "TurnResponse",
    "UIWire",
    "Wire",
    "error_response",
    "exception_handlers",
    "lifespan",
    "memory_of",
    "raw_response",
    "sse_response",
    "text_response",
    "ui_response",
]
