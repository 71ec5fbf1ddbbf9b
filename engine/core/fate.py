"""What became of an attempt of an earlier engine: what `ports.Launcher.recover` finds out, and `restore` goes by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Unproven:
    """It may be alive: it keeps its slots."""

    why: str = ""
    """What speaks against its being gone, one line; "": nothing in particular."""


Fate = Literal["adopted", "ended", "never ran", "lost"] | Unproven
"""*adopted*: something of it runs; *ended*: how, was written; *never ran*; *lost*: proven to be gone without a code."""
