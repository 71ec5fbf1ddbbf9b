"""A command as it was typed behind `run` and `add`."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence

from .errors import UsageError
from .taskfile.kinds import refuse_own
from .taskfile.problems import BadValueError

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./~-]+")


def command_of(words: Sequence[str], verb: str) -> str | list[str]:
    """Several words are executed as they are; a single one with blanks or characters that a shell obeys is a line for
    bash. Raises UsageError."""
    words = list(words[1:] if words and words[0] == "--" else words)
    if not words or not words[0].strip():
        raise UsageError(f"{verb}: give a command behind --: `gpudeck {verb} -- python train.py`")
    if len(words) > 1 and " " in words[0] and not os.path.exists(words[0]):
        line = shlex.quote(words[0])
        raise UsageError(f"{verb}: {line} is a line for bash, which stands alone: options of gpudeck's go before it")
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{verb}: {word!r} is not UTF-8: put such a command into a script") from None
    return words[0] if len(words) == 1 and not _PLAIN.fullmatch(words[0]) else words


def pairs_of(texts: Sequence[str], option: str) -> dict[str, str]:
    """K=V by K. Raises UsageError."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"{option} wants K=V, got {text!r}")
        pairs[name] = value
    return pairs


def variables_of(texts: Sequence[str]) -> dict[str, str]:
    """What --env gives, K=V by K. Raises UsageError, also for what only gpudeck gives."""
    pairs = pairs_of(texts, "--env")
    for name in pairs:
        try:
            refuse_own(name)
        except BadValueError as error:
            raise UsageError(f"--env {error.words}") from None
    return pairs
