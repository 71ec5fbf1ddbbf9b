"""What a tab's process needs in its environment, and the environment without it: decks are started with that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

MARK = "GPUDECK_WEB_TAB"
"""Holds what the changed variables were before, as JSON; null: not set."""


def marked(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """*after*, with a note of how it was *before*."""
    changed = {name: before.get(name) for name, value in after.items() if before.get(name) != value}
    return {**after, MARK: json.dumps(changed)}


def is_tab(environ: Mapping[str, str]) -> bool:
    """Whether this process serves a tab of a browser."""
    return MARK in environ


def without_tab(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment of whoever typed `gpudeck --web`."""
    if not is_tab(environ):
        return environ
    before = cast("dict[str, str | None]", json.loads(environ[MARK]))
    kept = {name: value for name, value in environ.items() if name != MARK and name not in before}
    return kept | {name: value for name, value in before.items() if value is not None}
