"""What happened as a message: which events notify the user, and in which words. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..text import log_line, printable, shorten

Kind = Literal["failure", "retry", "round", "end", "halt", "gpu", "watch", "stop", "begin", "test"]
"""`begin` is not told: from there on another run is being told of."""
Level = Literal["info", "success", "warning", "failure"]


@dataclass(frozen=True, slots=True)
class Happening:
    """Frozen: it crosses from the engine's thread to that of the sender."""

    kind: Kind
    text: str
    """One line: what happened."""
    run: int
    level: Level = "info"
    key: str = ""
    """What it is known by within its run, so that it is told once; empty: it happens anew each time."""
    past: bool = False
    """Read from the deck's state at an engine's start: told only if the engine before should have."""
    task: str = ""
    attempt: int = 0
    log: str = ""
    digest: tuple[str, ...] = ()
    """The lines of its log that tell why it failed."""
    wall: float = 0.0


MAX_LINES = 20
"""Things that get a line of their own; the rest is counted."""
MAX_DIGESTS = 3
MAX_DIGEST_LINES = 20
MAX_LINE_CHARS = 300

_RANK: tuple[Level, ...] = ("failure", "warning", "success", "info")
_LAST = ("end", "stop")
_NOUNS = {
    "failure": ("failure", "failures"),
    "retry": ("retry", "retries"),
    "round": ("round over", "rounds over"),
    "halt": ("halt", "halts"),
    "gpu": ("change of a GPU", "changes of a GPU"),
    "watch": ("watch rule", "watch rules"),
}
"""One of a kind, and several."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose messages these are."""

    deck: str
    file: str
    """Absolute path of the task file."""
    host: str
    log_dir: str


@dataclass(frozen=True, slots=True)
class Notice:
    """What is sent."""

    title: str
    body: str
    level: Level
    data: dict[str, Any]
    """For a command: JSON values."""


def fold(origin: Origin, happened: Sequence[Happening]) -> Notice:
    """One message about all of *happened*, which is not empty."""
    levels: set[Level] = {one.level for one in happened}
    level = min(levels, key=_RANK.index)
    title = f"{origin.deck}: {_headline(happened)}"
    body = "\n".join([*_lines(happened), f"{origin.host}:{origin.file}"])
    shown = _shown(happened)
    data = {
        "v": 1,
        "deck": origin.deck,
        "file": origin.file,
        "host": origin.host,
        "log_dir": origin.log_dir,
        "run": happened[-1].run,
        "title": title,
        "body": body,
        "level": level,
        "counts": dict(Counter(one.kind for one in happened)),
        "events": [_as_data(one, digest=one in _with_digest(shown)) for one in shown],
        "left_out": len(happened) - len(shown),
    }
    return Notice(title, body, level, data)


def _headline(happened: Sequence[Happening]) -> str:
    last = [one for one in happened if one.kind in _LAST]
    if len(happened) == 1 or last:
        return _line((last or happened)[-1].text)
    counts = Counter(one.kind for one in happened)
    if len(counts) == 1 and "failure" in counts:
        return f"{counts['failure']} tasks failed"
    return ", ".join(f"{count:,} {_NOUNS.get(kind, (kind, kind))[count > 1]}" for kind, count in counts.items())


def _shown(happened: Sequence[Happening]) -> Sequence[Happening]:
    """The first ones, and those that tell of the end."""
    last = [one for one in happened if one.kind in _LAST]
    rest = [one for one in happened if one.kind not in _LAST]
    return [*last, *rest[: MAX_LINES - len(last[:MAX_LINES])]][:MAX_LINES]


def _with_digest(shown: Sequence[Happening]) -> Sequence[Happening]:
    return [one for one in shown if one.digest][:MAX_DIGESTS]


def _lines(happened: Sequence[Happening]) -> list[str]:
    shown = _shown(happened)
    digests = _with_digest(shown)
    lines: list[str] = []
    for one in shown:
        lines.append(_line(one.text))
        if one.log and one.kind in ("failure", "retry"):
            lines.append(f"  log: {_line(one.log)}")
        if one in digests:
            lines += [f"  | {line}" for line in _digest(one)]
    if left := len(happened) - len(shown):
        lines.append(f"and {left} more: gpudeck status --failed")
    return lines


def _digest(one: Happening) -> list[str]:
    return [shorten(log_line(line), MAX_LINE_CHARS) for line in one.digest[-MAX_DIGEST_LINES:]]


def _line(text: str) -> str:
    return shorten(printable(text), MAX_LINE_CHARS)


def _as_data(one: Happening, *, digest: bool) -> dict[str, Any]:
    return {
        "event": one.kind,
        "text": _line(one.text),
        "run": one.run,
        "task": one.task,
        "attempt": one.attempt,
        "log": one.log,
        "digest": _digest(one) if digest else [],
        "wall": one.wall,
    }
