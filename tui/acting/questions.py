"""What comes of an action: a request to the engine, a question to the user first, or a refusal. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Option:
    """One of the answers that a question can get."""

    id: str
    label: str
    key: str = ""
    """Letters that choose it at once; the first one is shown. What ends something that runs is never chosen by the key
    that opens its question: a key that is pressed twice, or held down, ends nothing."""
    grave: bool = False
    """It ends something that runs."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the engine is asked."""

    op: str
    args: Mapping[str, Any]
    done: str
    """What is said when the engine has done it."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked before something is done."""

    title: str
    lines: tuple[str, ...]
    answers: tuple[Option, ...]
    """The first one is harmless."""
    then: Callable[[str], Request | Question | None]
    """By an answer's id."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing can be done, and why."""

    text: str


Doing = Request | Question | Refusal
