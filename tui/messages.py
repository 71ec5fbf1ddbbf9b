"""What widgets and screens tell upwards. The app forwards it to the engine or to another screen."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message


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
