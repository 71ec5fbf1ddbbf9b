"""What a deck is opened for: it decides which options of earlier runs hold, and what starts by itself."""

from __future__ import annotations

from typing import Literal

Purpose = Literal["headless", "start", "look", "act", "note", "stop"]
"""headless, start: the deck is to run; where its last run has ended, the next one begins. look: a screen; what never
ran starts. act: a command on some tasks; nothing starts before that is taken, and then nothing that is new in the file.
note: the same, and the engine ends then. stop: what runs is to be ended, whatever has become of the task file."""

BEGINS: frozenset[Purpose] = frozenset({"headless", "start"})
"""After a run has ended they begin another: the file and what is given now rule it."""
ASKED_ONLY: frozenset[Purpose] = frozenset({"act", "note", "stop"})
"""Nothing starts that was not asked for."""
