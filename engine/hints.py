"""Commands that messages name, completed for the deck that they are about, so that they can be pasted.

Messages name them in backticks, as short as they are for a deck in the current folder: `gpudeck stop`. Who tells the
user knows which deck was meant, and how that was typed.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass

from .command import Command
from .errors import UsageError
from .taskfile.find import find_task_file

_NAMED = re.compile(r"`gpudeck(?P<verb> [a-z]+)?(?P<rest>(?: [^`]*)?)`")
_OF_NO_DECK = frozenset({"completion", "init", "schema"})
_OF_NO_STATE = frozenset({"init", "run"})
"""Their --name is that of something else."""
_OF_A_FILE = frozenset({"add", "doctor", "fit"})
"""They take a profile, and no state."""
_OF_NO_QUEUE = frozenset({"check", "submit"})
"""They are about a task file that somebody wrote."""


@dataclass(frozen=True, slots=True)
class Hints:
    """How a deck is named on a command line; nothing given: it is the one that is meant without a word."""

    file: str = ""
    """As it was typed."""
    profile: str = ""
    name: str = ""
    queue: bool = False

    @classmethod
    def of(cls, command: Command) -> Hints:
        """For the deck that *command* was about."""
        file, given = _file(command.file), command.given
        if command.verb in _OF_NO_STATE:
            return cls(file)
        return cls(file, given.get("profile") or "", given.get("name") or "", command.flag("queue"))

    def completed(self, text: str) -> str:
        """*text*, every command of gpudeck that it names in backticks as it is to be typed for this deck."""
        return _NAMED.sub(self._typed, text) if "`gpudeck" in text else text

    def _typed(self, named: re.Match[str]) -> str:
        verb, rest = named["verb"] or "", named["rest"]
        about_box = verb == " gpus" and not rest
        if verb.strip() in _OF_NO_DECK or about_box:
            return named[0]
        file = f" -f {shlex.quote(self.file)}" if self.file and " -f " not in named[0] else ""
        options = "" if _says_state(rest) else "".join(f" {shlex.quote(word)}" for word in self._state(verb.strip()))
        return f"`gpudeck{file}{verb}{options}{rest}`"

    def _state(self, verb: str) -> list[str]:
        """Options that say which of the file's states is meant, as far as *verb* has them."""
        if verb in _OF_NO_STATE:
            return []
        profile = ["--profile", self.profile] if self.profile else []
        if verb in _OF_A_FILE:
            return profile
        queue = ["--queue"] if self.queue and verb not in _OF_NO_QUEUE else []
        return [*profile, *(["--name", self.name] if self.name else []), *queue]


def _says_state(words: str) -> bool:
    return any(option in words.split() for option in ("--profile", "--name", "--queue"))


def _file(typed: str | None) -> str:
    """ "" where the same file is found without a word."""
    if typed is None:
        return ""
    try:
        found = find_task_file(None, os.environ, os.getcwd())
    except (UsageError, OSError):
        return typed
    return "" if os.path.abspath(found) == os.path.abspath(typed) else typed
