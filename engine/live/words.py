"""A plan, and a file that cannot be used, in words: one line for notes and the screen's header, a line for each kind of
change for `apply --dry-run`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from ..text import field_text
from .plan import NEW_WORK, Change, FilePlan, name_of

NAMED = 5
"""Names that a line lists; the others are counted."""
_LONGEST = 80
"""Characters of a command that are told."""

_KINDS = (
    ("added", "added"),
    ("changed_waiting", "changed, not started"),
    ("changed_finished", "changed, ended"),
    ("changed_running", "changed, running"),
    ("gone_waiting", "gone, not started"),
    ("gone_finished", "gone, ended"),
    ("gone_running", "gone, running"),
    ("in_place", "other rules"),
)
_MEANS = {
    "added": "start when they can",
    "changed_waiting": "start as the file says now",
    "changed_finished": "run again from the beginning, unless their results are kept (--keep)",
    "changed_running": "end as they were started, then are changed",
    "gone_waiting": "do not start",
    "gone_finished": "count for nothing any more; logs and results stay",
    "gone_running": "run to their end, and count for nothing",
    "in_place": "take effect at once",
}


_GONE = ("gone_finished", "gone_running")
"""Beside `NEW_WORK`, kinds in which what has only another name is not told: it has a line of its own."""


def summary(plan: FilePlan) -> str:
    """ "3 added; 1 changed, running; 2 renamed": one line; "" for a plan without changes."""
    parts = [f"{len(items)} {words}" for _, words, items in _kinds(plan)]
    if plan.renamed:
        parts.append(f"{len(plan.renamed)} renamed")
    if plan.settings_now or plan.settings_later:
        names = [change.name for change in (*plan.settings_now, *plan.settings_later)]
        parts.append(f"[deck] {', '.join(names)}")
    if plan.reordered and not parts:
        parts.append("another order")
    return "; ".join(parts)


def problem(problems: Sequence[str], path: str) -> str:
    """What is wrong with the file at *path*, in one line that may be cut at its end: how much it is comes first, and
    its folder is known."""
    lines = [line.removeprefix(os.path.join(os.path.dirname(path), "")) for line in problems]
    return f"{len(lines)} problems, the first: {lines[0]}" if len(lines) > 1 else "".join(lines)


_KEPT = "keep their results: these count as what the file says"


def lines(plan: FilePlan, named: int = NAMED, *, keep: bool = False) -> list[str]:
    """The whole plan, a line for each kind of change. *keep*: finished tasks keep their results."""
    means = {**_MEANS, "changed_finished": _KEPT} if keep else _MEANS
    found: list[str] = []
    for key, words, items in _kinds(plan):
        found += [f"{words:<21} {_names(items, named)}: they {means[key]}", *_example(items)]
    if plan.renamed:
        texts = [f"{name} (was {other})" for name, other in plan.renamed]
        same = _names(texts, named)
        found.append(f"{'the same work':<21} {same}: what was done, or runs, under the other name counts")
    if plan.named_in_it:
        texts = [f"{name} (was {other})" for name, other in plan.named_in_it]
        found.append(f"{'other work':<21} {_names(texts, named)}: the command has the name in it, so it starts anew")
    if plan.given_gone:
        texts = [f"{name} ({values})" for name, values in plan.given_gone]
        found.append(f"{'values of a retry':<21} {_names(texts, named)}: they go with the task; another has the file's")
    found += [_setting(change, "now") for change in plan.settings_now]
    found += [_setting(change, "when the deck is opened again") for change in plan.settings_later]
    if plan.reordered:
        found.append("the tasks stand in another order: the queue follows it")
    return found or ["nothing changes"]


def _kinds(plan: FilePlan) -> Iterator[tuple[str, str, Sequence[Change | str]]]:
    """The changes by kind, those that a new name of the same work explains left out."""
    new, old = ({pair[place] for pair in plan.renamed} for place in (0, 1))
    for key, words in _KINDS:
        apart = new if key in NEW_WORK else old if key in _GONE else ()
        if items := [item for item in getattr(plan, key) if name_of(item) not in apart]:
            yield key, words, items


def _names(items: Sequence[Change | str], named: int) -> str:
    texts = [item if isinstance(item, str) else f"{item.name} ({', '.join(item.what)})" for item in items[:named]]
    more = len(items) - len(texts)
    return ", ".join(texts) + (f" and {more} more" if more else "")


def _example(items: Sequence[Change | str]) -> list[str]:
    """How the first command that is another one differs: those of a sweep mostly differ alike."""
    for item in items:
        if not isinstance(item, str) and item.command is not None:
            old, new = _where_they_differ(*item.command)
            return [f"{'':<21} {item.name}: {old} -> {new}"]
    return []


def _where_they_differ(old: str, new: str) -> tuple[str, str]:
    """The words that differ, with one before them and one behind: "… --lr 1e-3 …"."""
    words = (old.split(), new.split())
    shortest = min(map(len, words))
    before = next((at for at in range(shortest) if words[0][at] != words[1][at]), shortest)
    most = shortest - before
    behind = next((at for at in range(most) if words[0][-1 - at] != words[1][-1 - at]), most)
    first, last = max(0, before - 1), max(0, behind - 1)
    return _part(words[0], first, last), _part(words[1], first, last)


def _part(words: Sequence[str], first: int, last: int) -> str:
    """*words* without the first and last so many, and cut where it is long."""
    text = " ".join(words[first : len(words) - last])
    text = field_text(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
    return f"{'… ' * bool(first)}{text}{' …' * bool(last)}"


def _setting(change: Change, when: str) -> str:
    old, new = change.what
    return f"{'[deck] ' + change.name:<21} {old} -> {new}: {when}"
