"""Where the state and the logs of a deck lie whose task file is broken now."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from typing import cast

from ..core.spec import DeckSettings
from ..errors import TaskFileError
from ..taskfile.find import STATE_DIR, stem_of
from ..taskfile.load import load_settings
from ..taskfile.options import RunOptions
from ..taskfile.settings import default_log_dir

_TABLE = re.compile(r"\s*\[+\s*([^\[\]]+?)\s*\]+\s*(?:#.*)?")
_WANTED = ("name", "state_dir", "log_dir")


def settings_despite(path: str, options: RunOptions) -> DeckSettings:
    """Name, state_dir and log_dir of a file that cannot be read as a whole; defaults for what cannot be read."""
    said = _deck_lines(path)
    folder = os.path.dirname(os.path.abspath(path))
    log_dir = said.get("log_dir", default_log_dir(stem_of(path, options)))
    if options.log_dir is not None:
        log_dir = os.path.abspath(os.path.expanduser(options.log_dir))
    return DeckSettings(
        name=said.get("name", os.path.splitext(os.path.basename(path))[0]),
        state_dir=os.path.join(folder, os.path.expanduser(said.get("state_dir", STATE_DIR))),
        log_dir=os.path.join(folder, os.path.expanduser(log_dir)),
    )


def state_dir_said(path: str, options: RunOptions) -> str:
    """Where the task file says that the deck has its state, broken or not."""
    try:
        return load_settings(path, options).state_dir
    except TaskFileError:  # a file that was broken under a live engine
        return settings_despite(path, options).state_dir


def _deck_lines(path: str) -> dict[str, str]:
    said: dict[str, str] = {}
    for line in _lines_of_deck(path):
        try:
            pair = tomllib.loads(line)
        except ValueError:
            continue
        said |= {key: cast("str", pair[key]) for key in _WANTED if isinstance(pair.get(key), str) and pair[key]}
    return said


def _lines_of_deck(path: str) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    table = ""
    for line in lines:
        header = _TABLE.fullmatch(line)
        if header is not None:
            table = header[1]
        elif table == "deck":
            yield line
