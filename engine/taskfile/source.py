"""Reads a task file: from a path to TOML values and their lines."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from hashlib import blake2b
from typing import cast

from ..errors import TaskFileError
from .lines import Lines, line_of_nesting, line_of_number
from .problems import printable
from .values import MAX_DEPTH, SourceFloat, deeper, has_nul, is_list, is_table

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
