"""Collects everything that is wrong with a task file, to tell it at once and in the file's order."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches

from ..errors import TaskFileError
from ..text import printable

MAX_LINES = 100
"""More problems than this are only counted."""


class BadValueError(Exception):
    """What is wrong with a value, in words that follow the key's name: "must be at least 0, got -1".

    *inside* names what the words are about where it is a part of the value: `BadValueError("must be text", "SEED")`
    about env reads `env.SEED must be text`.
    """

    def __init__(self, words: str, *inside: str) -> None:
        super().__init__(words)
        self.words = words
        self.inside = inside


@contextmanager
def inside(key: str) -> Generator[None]:
    """What is wrong within is wrong in this part of the value."""
    try:
        yield
    except BadValueError as error:
        raise BadValueError(error.words, key, *error.inside) from None


class SkipError(Exception):
    """What was read is useless from here on; the reasons are among the problems."""


@dataclass(slots=True)
class Problems:
    """Problems of one task file. The same problem of many tasks of an entry is one line."""

    shown: str
    """The file's path as the user gave it."""
    _found: dict[tuple[int, str, str], dict[str, None]] = field(
        default_factory=dict[tuple[int, str, str], dict[str, None]]
    )

    def add(self, line: int, text: str, *, where: str = "") -> None:
        """Note a problem. *where*: "[deck]", 'task "x"'; line 0: it has none."""
        kind = "task" if where.startswith('task "') else where
        names = self._found.setdefault((line, kind, text), {})
        names[where] = None

    def __bool__(self) -> bool:
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def lines(self) -> list[str]:
        """Every problem, in the order of the file."""
        ordered = sorted(self._found.items(), key=lambda item: item[0][0])
        lines = [self._line(line, list(names), text) for (line, _, text), names in ordered[:MAX_LINES]]
        left = len(ordered) - MAX_LINES
        return [*lines, f"{self.shown}: and {left:,} more"] if left > 0 else lines

    def _line(self, line: int, names: Sequence[str], text: str) -> str:
        place = f"{self.shown}:{line}" if line else self.shown
        others = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        return printable(f"{place}: {names[0]}{others}: {text}" if names[0] else f"{place}: {text}")

    def raise_any(self) -> None:
        """Raises TaskFileError when there is a problem."""
        if self._found:
            raise TaskFileError(self.lines())


def check_together(*checks: Callable[[], None]) -> None:
    """Raises one TaskFileError with the problems of all *checks*."""
    problems: list[str] = []
    for check in checks:
        try:
            check()
        except TaskFileError as error:
            problems += error.problems
    if problems:
        raise TaskFileError(problems)


def did_you_mean(word: str, known: Sequence[str], *, form: str = "{}") -> str:
    """ "did you mean X?", or "" where nothing is near."""
    near = get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean {form.format(near[0])}?" if near else ""
