"""What goes over the wire, for the documentation and the checks of FastAPI."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from diarist.runtime.results import ConversationInfo, ConversationPage, HistoryItem, HistoryPage, Receipt


class Body(BaseModel):
    """A request's body: unknown keys are an error, not a surprise."""

    model_config = ConfigDict(extra="forbid")


Title = Annotated[str, Field(min_length=1, max_length=200)]


class NewConversation(Body):
    """A conversation to create. Without an id it gets a random one."""

    title: Title = "New conversation"
    id: str | None = None


class Rename(Body):
    title: Title


class Question(Body):
    """What the user says."""

    text: Annotated[str, Field(min_length=1)]


class Rewind(Body):
    """Exactly one: a version, or the id of a message before or after which the view is cut."""

    version: Annotated[int | None, Field(ge=0)] = None
    before: str | None = None
    after: str | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(value is not None for value in (self.version, self.before, self.after)) != 1:
            raise ValueError("give exactly one of version, before and after")
        return self


class Card(BaseModel):
    """A conversation's card."""

    id: str
    title: str | None
    version: int
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, info: ConversationInfo) -> Card:
        return cls(
            id=info.id,
            title=info.title,
            version=info.version,
            created_at=info.created_at,
            updated_at=info.updated_at,
        )


class Cards(BaseModel):
    """A page of conversations; `next` goes into `after`."""

    items: list[Card]
    next: str | None

    @classmethod
    def of(cls, page: ConversationPage) -> Cards:
        return cls(items=[Card.of(info) for info in page], next=page.next)


class Logged(BaseModel):
    """A message of the log, in the OpenAI chat format. `in_view`: whether the model sees it now."""

    position: int
    version: int
    in_view: bool
    message: dict[str, Any]

    @classmethod
    def of(cls, item: HistoryItem) -> Logged:
        found = item.message.to_dict()
        return cls(position=item.position, version=item.version, in_view=item.in_view, message=found)


class History(BaseModel):
    """A page of the log, ascending; `next` goes into the same argument. Null: there is no more."""

    items: list[Logged]
    next: int | None

    @classmethod
    def of(cls, page: HistoryPage) -> History:
        return cls(items=[Logged.of(item) for item in page], next=page.next)


class Done(BaseModel):
    """A change that is durable."""

    version: int
    replayed: bool

    @classmethod
    def of(cls, receipt: Receipt) -> Done:
        return cls(version=receipt.version, replayed=receipt.replayed)


class Interrupted(BaseModel):
    """Whether an answer was running."""

    interrupted: bool


class Health(BaseModel):
    """Whether the server lives, or is ready for work, and if not why."""

    status: str
    detail: str | None = None


class Problem(BaseModel):
    """What failed. `outcome`: whether it was executed; `idempotency_key`: to repeat it with."""

    error: str
    detail: str
    outcome: str | None = None
    idempotency_key: str | None = None
