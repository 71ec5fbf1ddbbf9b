"""From a path to TOML values, and the line in which each of them stands: the parser itself does not tell.

`Lines` is only for texts that the parser has accepted, so the scan can trust their syntax.
"""

from __future__ import annotations

import os
import re
import tomllib
from bisect import bisect_right
from dataclasses import dataclass
from hashlib import blake2b
from typing import cast

from ..errors import TaskFileError
from ..text import printable
from .values import MAX_DEPTH, SourceFloat, deeper, has_nul, is_list, is_table

Path = tuple[str | int, ...]

_STRING = r"""\"\"\"(?:\\.|[^\\])*?\"{3,5}|'''.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'"""
_SKIP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*("(?:\\.|[^"\\\n])*"|'[^'\n]*'|[A-Za-z0-9_-]+)[ \t]*(\.?)""")
_VALUE_TOKEN = re.compile(rf"{_STRING}|#[^\n]*|[\[{{]|[\]}}]|\n", re.DOTALL)


class Lines:
    """Line numbers of one text, found when first asked for."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: list[int] | None = None
        self._found: dict[Path, int] | None = None
        self._headers: set[Path] = set()

    def of(self, *path: str | int) -> int:
        """The line of a table or key, from 1; that of what contains it where it has no line of its own; else 0."""
        found = self._scanned()
        while path and path not in found:
            path = path[:-1]
        return found.get(path, 0)

    def has_header(self, *path: str | int) -> bool:
        """Whether the table has a [header] of its own, so that lines below it belong to it."""
        self._scanned()
        return path in self._headers

    def _line_at(self, offset: int) -> int:
        if self._starts is None:
            self._starts = [0, *(match.end() for match in re.finditer("\n", self._text))]
        return bisect_right(self._starts, offset)

    def _scanned(self) -> dict[Path, int]:
        if self._found is None:
            self._found = {}
            self._scan(self._found)
        return self._found

    def _scan(self, found: dict[Path, int]) -> None:
        text, at = self._text, 0
        table: Path = ()
        counts: dict[Path, int] = {}
        while (at := _skip(text, at)) < len(text):
            line = self._line_at(at)
            if text[at] == "[":
                double = text.startswith("[[", at)
                keys, at = _keys(text, at + 1 + double)
                table = _table(keys, counts, new=double)
                self._headers.add(table)
                at = text.index("]", at) + 1 + double
                _note(found, table, line)
            else:
                keys, at = _keys(text, at)
                _note(found, table + keys, line)
                at = _after_value(text, at)


def line_of_nesting(text: str, depth: int) -> int:
    """Where brackets are nested deeper than *depth*, in a text that may be too deep for the parser; 0: nowhere."""
    for match in _VALUE_TOKEN.finditer(text):
        depth -= (match[0] in "[{") - (match[0] in "]}")
        if depth < 0:
            return text.count("\n", 0, match.start()) + 1
    return 0


def line_of_number(text: str, characters: int) -> int:
    """Where a number has more than *characters*; 0: nowhere."""
    for match in re.finditer(rf"{_STRING}|#[^\n]*|\b([0-9]\w{{{characters}}})", text, re.DOTALL):
        if match[1]:
            return text.count("\n", 0, match.start()) + 1
    return 0


def _note(found: dict[Path, int], path: Path, line: int) -> None:
    for size in range(1, min(len(path), MAX_DEPTH) + 1):
        found.setdefault(path[:size], line)


def _skip(text: str, at: int) -> int:
    match = _SKIP.match(text, at)
    return match.end() if match else at


def _keys(text: str, at: int) -> tuple[Path, int]:
    """A dotted key and where it ends."""
    keys: list[str | int] = []
    while match := _KEY.match(text, at):
        at, word = match.end(), match[1]
        keys.append(next(iter(tomllib.loads(f"{word} = 0"))) if word[0] in "\"'" else word)
        if not match[2]:
            break
    return tuple(keys), at


def _table(keys: Path, counts: dict[Path, int], *, new: bool) -> Path:
    """The path of a header; a table below an array of tables belongs to the array's last one."""
    path: Path = ()
    for position, key in enumerate(keys):
        path += (key,)
        if new and position == len(keys) - 1:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path += (counts[path],)
    return path


def _after_value(text: str, at: int) -> int:
    """The end of the line on which the value that begins at *at* ends."""
    depth = 0
    for match in _VALUE_TOKEN.finditer(text, at):
        token = match[0]
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
        elif token == "\n" and depth <= 0:
            return match.end()
    return len(text)


_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
MAX_DIGITS = 1000

_NUL = re.compile(r"\\u0000|\\U00000000")
_LONG = re.compile(rf"[0-9]\w{{{MAX_DIGITS}}}")
_PLAINER = {
    "Cannot overwrite a value": "this key is there twice: {key}",
    "Cannot declare": "this table is there twice",
    "Expected '=' after a key in a key/value pair": "expected KEY = VALUE",
    "Invalid value": "this is no TOML value (text needs quotes)",
    "Unclosed array": "a list is not closed with ]",
    "Illegal character '\\n'": "a quote is not closed on its line",
}


@dataclass(frozen=True, slots=True)
class Source:
    """A task file's content."""

    path: str
    """Absolute."""
    shown: str
    """As the user gave it."""
    text: str
    data: dict[str, object]
    lines: Lines
    digest: str
    """Of the file's bytes."""

    @property
    def folder(self) -> str:
        return os.path.dirname(self.path)


def read_source(path: str, content: bytes | None = None) -> Source:
    """Read and parse; *content*: what is parsed in place of what stands there. Raises TaskFileError with one line when
    that fails."""
    content = _bytes(path) if content is None else content
    text = _decoded(path, content)
    if not text.strip():
        raise TaskFileError([f"{path}: the file is empty: it needs at least one [[task]] with a name and a command"])
    if _LONG.search(text) and (line := line_of_number(text, MAX_DIGITS)):
        raise TaskFileError([f"{path}:{line}: a number has more than {MAX_DIGITS:,} digits"])
    try:
        data = tomllib.loads(text, parse_float=SourceFloat)
    except tomllib.TOMLDecodeError as error:
        raise TaskFileError([_syntax(path, text, str(error))]) from None
    except RecursionError:
        raise _too_deep(path, line_of_nesting(text, MAX_DEPTH)) from None
    lines = Lines(text)
    if deep := deeper(data, MAX_DEPTH):
        raise _too_deep(path, lines.of(*deep))
    nul = _NUL.search(text)
    if nul is not None and has_nul(data):
        line = text.count("\n", 0, nul.start()) + 1
        raise TaskFileError([f"{path}:{line}: no text may hold a NUL character: it would end the text where it stands"])
    return Source(os.path.abspath(path), path, text, data, lines, digest_of(content))


def _too_deep(path: str, line: int) -> TaskFileError:
    return TaskFileError([f"{path}:{line}: lists or tables are nested more than {MAX_DEPTH} deep"])


def drop_key(data: object, key: str) -> None:
    """Take a key out of all tables."""
    if is_table(data):
        cast("dict[str, object]", data).pop(key, None)
    for item in data.values() if is_table(data) else data if is_list(data) else ():
        drop_key(item, key)


def digest_of(content: bytes) -> str:
    """Identity of a file's content."""
    return blake2b(content, digest_size=16).hexdigest()


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except IsADirectoryError:
        raise TaskFileError([f"{path}: this is a folder, not a task file{_inside(path)}"]) from None
    except FileNotFoundError:
        raise TaskFileError([f"{path}: no such file"]) from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TaskFileError([f"{path}: cannot be read: {why}"]) from None


def _inside(path: str) -> str:
    inside = os.path.join(path, "tasks.toml")
    return f": did you mean {inside}?" if os.path.isfile(inside) else ""


def _decoded(path: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TaskFileError([f"{path}:{line}: not UTF-8 text (byte 0x{content[error.start]:02x})"]) from None


def _syntax(path: str, text: str, message: str) -> str:
    match = _PLACE.search(message)
    words = message[: match.start()] if match else message
    words = next((plain for start, plain in _PLAINER.items() if words.startswith(start)), words)
    if match is None or match[1] is None:
        return f"{path}:{text.rstrip().count(chr(10)) + 1}: the file ends inside a list or text that is not closed"
    key = text.split("\n")[int(match[1]) - 1].partition("=")[0].strip()
    return f"{path}:{match[1]}: {words.replace('{key}', printable(key))} (column {match[2]})"
