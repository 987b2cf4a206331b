"""Tools: typed async functions that a model may call."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast, get_type_hints, overload

from diarist.adapters.extras import require
from diarist.runtime.messages import ToolMessage
from diarist.runtime.parts import ToolCall

Function = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know about its call. A parameter annotated with this type gets it; the model never sees it."""

    context: Mapping[str, Any]
    """The request's."""
    call: ToolCall


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call.

    Name, description and the JSON schema of the arguments come from the function: its name, its docstring and its
    annotations (`Annotated[str, Field(description=…)]` says more). `return_direct`: its result is the answer; the
    model does not see it. `limit`: calls of it per request. `timeout`: seconds for one call; None: no bound.
    """

    function: Function
    name: str = ""
    description: str = ""
    return_direct: bool = field(default=False, kw_only=True)
    limit: int | None = field(default=None, kw_only=True)
    timeout: float | None = field(default=None, kw_only=True)
    _arguments: Any = field(default=None, init=False, repr=False, compare=False)
    _context: str | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not inspect.iscoroutinefunction(self.function):
            raise TypeError(f"{self.function!r} is no async function; make one that uses asyncio.to_thread")
        name: str = self.name or getattr(self.function, "__name__", "tool")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "description", self.description or inspect.getdoc(self.function) or "")
        arguments, context = _arguments_of(self.function, name)
        object.__setattr__(self, "_arguments", arguments)
        object.__setattr__(self, "_context", context)

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        schema: dict[str, Any] = self._arguments.model_json_schema()
        del schema["title"]
        for entry in schema.get("properties", {}).values():
            entry.pop("title", None)
        return schema

    @property
    def spec(self) -> dict[str, Any]:
        """As an entry of `options["tools"]`: the form of OpenAI's Chat Completions."""
        body = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": body}

    async def run(self, context: ToolContext) -> str:
        """The result as text. Raises what the function raises, and `ValueError` for arguments that don't fit."""
        given = self._validated(_decoded(context.call))
        aliases: dict[str, Any] = self._arguments.model_fields
        values = {field.alias: getattr(given, name) for name, field in aliases.items()}
        if self._context is not None:
            values[self._context] = context
        return _text(await self.function(**values))

    def _validated(self, values: dict[str, Any]) -> Any:
        try:
            return self._arguments.model_validate(values)
        except ValueError as error:
            raise ValueError(f"the arguments don't fit: {misfits(error)}") from error


def misfits(error: Any) -> str:
    """What a pydantic error complains of, on one line."""
    found: list[dict[str, Any]] = error.errors(include_url=False)
    return "; ".join(f"{'.'.join(map(str, item['loc'])) or 'it'}: {item['msg']}" for item in found)


def _decoded(call: ToolCall) -> dict[str, Any]:
    """The arguments as an object. None at all are those of a function without parameters."""
    if call.type == "custom":
        return {"input": call.arguments}
    try:
        found: Any = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the arguments are no valid JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError("the arguments are no JSON object")
    return cast("dict[str, Any]", found)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    text: str = require("pydantic_core", "tools", "a tool's result").to_json(value, fallback=str).decode()
    return text


def _arguments_of(function: Callable[..., Any], name: str) -> tuple[Any, str | None]:
    """A pydantic model of the parameters, and the name of the one that takes the context."""
    pydantic = require("pydantic", "tools", "a tool's schema")
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    context: str | None = None
    for place, parameter in enumerate(inspect.signature(function).parameters.values()):
        if hints.get(parameter.name) is ToolContext:
            context = parameter.name
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{name}: a tool's parameters have names, {parameter} has none")
        default = ... if parameter.default is parameter.empty else parameter.default
        # Under a name of ours: a pydantic model refuses some that a function may use, like `schema` or `_id`.
        field = pydantic.Field(default, alias=parameter.name)
        fields[f"p{place}"] = (hints.get(parameter.name, Any), field)
    config = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    return pydantic.create_model(name, __config__=config, **fields), context


@overload
def tool(function: Function) -> Tool: ...
@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    return_direct: bool = False,
    limit: int | None = None,
    timeout: float | None = None,
) -> Callable[[Function], Tool]: ...
def tool(function: Function | None = None, **settings: Any) -> Tool | Callable[[Function], Tool]:
    """A decorator: `@tool`, or `@tool(return_direct=True)` with any setting of `Tool`."""
    if function is not None:
        return Tool(function)

    def decorate(decorated: Function) -> Tool:
        return Tool(decorated, **settings)

    return decorate


def result_of(call: ToolCall, text: str) -> ToolMessage:
    """The message that answers a call."""
    return ToolMessage(text, call.id, call.name)


def error_of(call: ToolCall, text: str) -> ToolMessage:
    """The message that tells a model why its call came to nothing."""
    return ToolMessage(text, call.id, call.name, extras={"is_error": True})
