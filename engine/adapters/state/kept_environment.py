"""The environment that tasks get, kept in the state folder of their deck."""

from __future__ import annotations

import os
from collections.abc import Mapping

from .private_files import write_private

_NAME = "environment"


def save_environment(state_dir: str, mapping: Mapping[str, str]) -> None:
    """Keep *mapping* for whichever engine runs the deck, readable by its owner only. Raises OSError."""
    pairs = (os.fsencode(f"{name}={value}") for name, value in mapping.items())
    write_private(os.path.join(state_dir, _NAME), b"\0".join(pairs))


def load_environment(state_dir: str) -> dict[str, str] | None:
    """What was kept; None when nothing was."""
    try:
        with open(os.path.join(state_dir, _NAME), "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return None
    pairs = (os.fsdecode(pair).partition("=") for pair in content.split(b"\0") if pair)
    return {name: value for name, _, value in pairs}
