"""What widgets and screens tell upwards. The app forwards it to the engine or to another screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from textual.message import Message


@dataclass
class Asked(Message):
    """The user wants something done to tasks, GPUs or the deck: a request of the protocol and its arguments."""

    op: str
    args: Mapping[str, Any]
    done: str = ""
    """What is said when it has been done; "": nothing."""


@dataclass
class Acted(Message):
    """The user chose an action of the table for these tasks: the screen may have to ask first."""

    action: str
    names: tuple[str, ...]


@dataclass
class OpenTask(Message):
    """Show everything about a task."""

    name: str


@dataclass
class OpenLogs(Message):
    """Show the logs of these tasks, beside each other."""

    names: tuple[str, ...]
    attempt: int = 0
    """0: the newest."""
    first_error: bool = False


@dataclass
class FilterTable(Message):
    """Back to the table, filtered."""

    text: str
