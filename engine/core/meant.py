"""What was probably meant by a selector that means no task: one good suggestion, or none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import islice

from .names import is_glob
from .spec import TaskSpec

_LOOK_AT = 2000
"""Tasks at most: to compare with each costs some 20 µs."""
_NEAR = 0.65
"""So alike are "bat" and "bad"; names of a sweep that differ in their number are, too, and all equally."""


def meant(text: str, tasks: Iterable[TaskSpec]) -> str:
    """ "train*" for "train", "rate=0.1" for "raet=0.1"; "" where nothing is near, or several are as near."""
    seen = list(islice(tasks, _LOOK_AT))
    kind, colon, word = text.partition(":")
    key, equals, value = text.partition("=")
    if len(text.split()) != 1 or is_glob(text):
        return ""
    if colon:
        near = nearest(word, {tag for task in seen for tag in task.tags}) if kind == "tag" else ""
        return near and f"tag:{near}"
    names = [task.name for task in seen]
    if not equals:
        longer = [name for name in names if name.startswith(text)]
        return f"{text}*" if len(longer) > 1 else longer[0] if longer else nearest(text, names)
    keys = {each for task in seen for each in task.params}
    if key not in keys:
        near = nearest(key, keys)
        return f"{near}={value}" if near else nearest(text, names)
    near = nearest(value, {task.params[key] for task in seen if key in task.params})
    return near and f"{key}={near}"


def nothing_matches(text: str, tasks: Iterable[TaskSpec]) -> str:
    """What to say of a selector that means no task."""
    near = meant(text, tasks)
    hint = f"; did you mean {near}?" if near else ""
    return f"{text}: no task of this deck matches{hint}"


def nearest(word: str, known: Iterable[str]) -> str:
    """The one that is most like it; "" where none is like it, or two are equally so."""
    ratios = sorted(((_ratio(word, each), each) for each in set(known)), reverse=True)
    best: Sequence[tuple[float, str]] = ratios[:2]
    if not best or best[0][0] < _NEAR or (len(best) == 2 and best[0][0] == best[1][0]):
        return ""
    return best[0][1]


def _ratio(word: str, other: str) -> float:
    """1.0: the same but for case."""
    matcher = SequenceMatcher(None, word.lower(), other.lower())
    return matcher.ratio() if matcher.real_quick_ratio() >= _NEAR and matcher.quick_ratio() >= _NEAR else 0.0
