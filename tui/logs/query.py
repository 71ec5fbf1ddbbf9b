"""What is searched for in a log, and which lines of a block of it are hits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import AnyStr, Literal

from ...engine.logs.signs import NEEDLES, tells_an_error
from .lines import shown_text

_KEPT = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz:_\n\r"
_DROPPED = bytes(code for code in range(256) if code not in _KEPT)
_FRAMES = bytes.maketrans(b"\r", b"\n")
_LETTERS = {needle: needle.translate(None, _DROPPED) for needle in NEEDLES}


def needles_in(block: bytes) -> Iterator[bytes]:
    """Those that may be in it; the others are not. Lines that differ in their numbers alone are looked at once."""
    shapes = b"\n".join(set(block.translate(_FRAMES, _DROPPED).split(b"\n")))
    return (needle for needle, letters in _LETTERS.items() if letters in shapes)


Kind = Literal["plain", "regex", "errors"]

_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)")
_REGEX = re.compile(r"/(.+)/(i?)", re.DOTALL)

Found = Callable[[bytes], Iterator[int]]
"""Where in a block without escapes hits may be, ascending; after one the rest of its line need not be told."""


@dataclass(frozen=True, slots=True)
class Query:
    """Plain text ignores the case of ASCII letters. A regex is Python's, for one line at a time."""

    kind: Kind
    text: str = ""
    ignore_case: bool = False

    @property
    def shown(self) -> str:
        if self.kind == "regex":
            return f"/{self.text}/{'i' if self.ignore_case else ''}"
        return self.text if self.kind == "plain" else "errors"


ERRORS = Query("errors")


def parse(text: str) -> Query:
    """`/…/` is a regex, `/…/i` one that ignores case; all else is plain text. Raises ValueError for a regex that is
    none, with the reason."""
    found = _REGEX.fullmatch(text)
    if found is None:
        return Query("plain", text)
    try:
        re.compile(found[1])
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"no regular expression: {error}") from error
    return Query("regex", found[1], ignore_case=bool(found[2]))


class Matcher:
    """Finds the lines of blocks that a query hits."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._needle = query.text.encode("utf-8", "surrogatepass").lower()
        flags = re.MULTILINE | (re.IGNORECASE if query.ignore_case else 0)
        self._pattern = re.compile(query.text, flags) if query.kind == "regex" else None

    def lines(self, block: bytes) -> list[int]:
        """Where in *block*, which consists of whole lines, those begin that are hits. What a line shows counts: the
        last of `\\r` frames, without escapes."""
        bare = _ESCAPES.sub(b"", block) if b"\x1b" in block else block
        if self._pattern is not None:
            text = bare.decode("utf-8", "replace")
            found = self._numbers(text, "\n", self._regex(text))
            return self._checked(block, found)
        spots = self._errors(bare) if self._query.kind == "errors" else self._plain(bare)
        if bare is block:
            return [start for start in _line_starts(block, spots) if self._confirm(_line_at(block, start))]
        return self._checked(block, self._numbers(bare, b"\n", spots))

    def _plain(self, block: bytes) -> Iterator[int]:
        lower = block.lower()
        at = lower.find(self._needle)
        while at >= 0:
            yield at
            line_end = lower.find(b"\n", at)
            at = lower.find(self._needle, line_end) if line_end >= 0 else -1

    def _errors(self, block: bytes) -> Iterator[int]:
        spots: set[int] = set()
        for needle in needles_in(block):
            at = block.find(needle)
            while at >= 0:
                spots.add(at)
                line_end = block.find(b"\n", at)
                at = block.find(needle, line_end) if line_end >= 0 else -1
        yield from sorted(spots)

    def _regex(self, text: str) -> Iterator[int]:
        """A match that needs more than its line is none; the next line is looked at then as well."""
        assert self._pattern is not None
        at = 0
        while at < len(text) and (found := self._pattern.search(text, at)) and found.start() < len(text):
            yield found.start()
            line_end = text.find("\n", found.start())
            if line_end < 0:
                return
            at = line_end + 1

    def _numbers(self, text: AnyStr, newline: AnyStr, spots: Iterator[int]) -> Iterator[int]:
        """Numbers of the lines that the spots are in."""
        number, at = 0, 0
        for spot in spots:
            number += text.count(newline, at, spot)
            at = spot
            yield number

    def _checked(self, block: bytes, numbers: Iterator[int]) -> list[int]:
        """Where the lines of these numbers begin, if what they show is a hit."""
        found: list[int] = []
        line, start = 0, 0
        for number in numbers:
            while line < number:
                start, line = block.find(b"\n", start) + 1, line + 1
            if (not found or found[-1] != start) and self._confirm(_line_at(block, start), always=True):
                found.append(start)
        return found

    def _confirm(self, raw: bytes, *, always: bool = False) -> bool:
        if not always and self._query.kind == "plain" and b"\r" not in raw and b"\t" not in raw:
            return True
        shown = shown_text(raw)
        if self._pattern is not None:
            return self._pattern.search(shown) is not None
        if self._query.kind == "errors":
            return tells_an_error(shown)
        return self._needle in shown.encode("utf-8", "replace").lower()


def _line_starts(block: bytes, spots: Iterator[int]) -> Iterator[int]:
    last = -1
    for spot in spots:
        start = block.rfind(b"\n", 0, spot) + 1
        if start != last:
            yield start
            last = start


def _line_at(block: bytes, start: int) -> bytes:
    end = block.find(b"\n", start)
    return block[start:] if end < 0 else block[start:end]
