"""Failures that are alike, together. Pure; knows no widget and reads no file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ...engine.protocol.pages import Failure
from ...engine.protocol.words import nodes_text
from .format import clean, clock, count, cut, plural, ranges, width_of
from .paragraphs import folded

Tone = Literal["bad", "count", "plain", "muted", "hint"]
Piece = tuple[str, Tone]

FAILED = "✗ "
GONE = "↻ "
"""Before a group of which nothing is failed any more."""
NAMED = 4
"""Tasks of a group that are named."""
REASON_LINES = 4
"""Of the reason of the group under the cursor."""
DIGEST_LINES = 12
"""Of what the log says at its end."""
_VARYING = re.compile(r"0x[0-9a-fA-F]+|(?:/[^\s:'\",]+)+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
"""What differs between failures that are alike: addresses, paths, numbers."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Failures of one kind that say the same, the newest first."""

    kind: str
    gist: str
    """What their reasons have in common, "#" for what differs."""
    reason: str
    """As the newest has it."""
    hint: str
    failures: tuple[Failure, ...]

    @property
    def key(self) -> tuple[str, str]:
        """What tells one group from another."""
        return self.kind, self.gist

    @property
    def newest(self) -> Failure:
        return self.failures[0]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(failure.task for failure in self.failures)


def _key(failure: Failure) -> tuple[str, str]:
    """What failures that are alike have in common."""
    return failure.kind, _VARYING.sub("#", failure.reason)


def groups_of(failures: Iterable[Failure]) -> list[Alike]:
    """The largest first, then the newest."""
    found: dict[tuple[str, str], list[Failure]] = {}
    for failure in failures:
        found.setdefault(_key(failure), []).append(failure)
    groups: list[Alike] = []
    for (kind, gist), alike in found.items():
        alike.sort(key=lambda failure: -failure.ended)
        newest = alike[0]
        groups.append(Alike(kind, gist, newest.reason, newest.hint, tuple(alike)))
    return sorted(groups, key=lambda group: (-len(group.failures), -group.newest.ended))


def lines_of(
    group: Alike,
    width: int,
    now_s: float,
    *,
    digest: Sequence[str] | None = None,
    whole: bool = False,
    gone: bool = False,
) -> list[tuple[Piece, ...]]:
    """How many and why, which tasks, where and when; *whole*: and the end of what the newest wrote, *digest*, which is
    None until it has been read. *gone*: none of them is failed any more."""
    found = [
        *_reason(group, width, REASON_LINES if whole else 1, gone=gone),
        _fitted((("  ", "muted"), (f"{_who(group)}  {_where(group, now_s)}", "muted")), width),
    ]
    if whole:
        if group.hint:
            found.append(_fitted((("  → ", "hint"), (clean(group.hint), "hint")), width))
        shown = ["…"] if digest is None else list(digest[-DIGEST_LINES:]) or ["its log says nothing"]
        found += [_fitted((("  │ ", "muted"), (_indented(line), "plain")), width) for line in shown]
    return [*found, ()]


def _reason(group: Alike, width: int, most: int, *, gone: bool) -> list[tuple[Piece, ...]]:
    """How many, and why: in *most* lines at most."""
    tone: Tone = "muted" if gone else "plain"
    mark: Piece = (GONE, "muted") if gone else (FAILED, "bad")
    number: Piece = (f"{count(len(group.failures))} × ", "muted" if gone else "count")
    indent = width_of(mark[0] + number[0])
    parts = folded(clean(group.reason or group.kind) + (": retried" if gone else ""), width - indent)
    first, *more = [*parts[: most - 1], " ".join(parts[most - 1 :])] if len(parts) > most else parts
    return [
        _fitted((mark, number, (first, tone)), width),
        *(_fitted(((" " * indent, "muted"), (part, tone)), width) for part in more),
    ]


def _who(group: Alike) -> str:
    names = [clean(name) for name in group.names[:NAMED]]
    more = len(group.failures) - len(names)
    return ", ".join(names) + (f" and {count(more)} more" if more else "")


def _where(group: Alike, now_s: float) -> str:
    gpus = sorted({gpu for failure in group.failures for gpu in failure.gpus})
    first, last = group.failures[-1].ended, group.failures[0].ended
    when = clock(last, now_s) if len(group.failures) == 1 else f"{clock(first, now_s)} to {clock(last, now_s)}"
    nodes = nodes_text(sorted({node for failure in group.failures for node in failure.nodes}))
    if nodes:
        return f"on {clean(nodes)}, {when}"
    return f"on GPU {ranges(gpus)}, {when}" if gpus else when


def _indented(line: str) -> str:
    """A traceback is read by its indentation."""
    text = clean(line.expandtabs(4))
    return text.rstrip()


def _fitted(pieces: Sequence[Piece], width: int) -> tuple[Piece, ...]:
    left = width
    found: list[Piece] = []
    for text, tone in pieces:
        shown = cut(text, left)
        found.append((shown, tone))
        left -= len(shown)
        if left <= 0:
            break
    return tuple(found)


def summary(groups: Sequence[Alike], total: int) -> str:
    """One line about all of them."""
    shown = sum(len(group.failures) for group in groups)
    if not total:
        return "nothing has failed"
    text = f"{plural(total, 'task')} failed, in {plural(len(groups), 'way')}"
    return f"{text}; of the newest {count(shown)} alone" if shown < total else text


def filter_for(group: Alike) -> str:
    """What the table is filtered by to show the tasks of a group: what all their reasons have in common."""
    words = ["state:failed", f"reason:{group.kind}"] if group.kind and " " not in group.kind else ["state:failed"]
    parts = re.split(r'["#]|\s{2,}', group.gist)
    longest = max((part.strip() for part in parts), key=len, default="")
    return " ".join([*words, f'"{longest}"'] if longest else words)
