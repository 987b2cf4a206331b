"""The memory as a dependency: `async def endpoint(memory: Memory)`."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from diarist.adapters.asgi.lifespan import memory_of
from diarist.runtime.memory import ChatMemory

Memory = Annotated[ChatMemory, Depends(memory_of)]
