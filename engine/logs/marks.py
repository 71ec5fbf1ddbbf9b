"""Counters and bars in a line that a task printed: tqdm, Hugging Face, Lightning, Keras, rich and hand-written ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import NamedTuple

_MAX_TOTAL = 1e15


class Rank(IntEnum):
    """What a number is about; the lower, the more of the task."""

    WHOLE = 0
    OUTER = 1
    EPOCH = 2
    STEP = 3
    ASIDE = 4
    """Loading, checking: what comes before, between or after the work itself."""


class Mark(NamedTuple):
    """One counter in a line."""

    rank: Rank
    number: float
    total: float | None
    label: str = ""
    counted: bool = False
    """*number* of *total* are done; otherwise it is the one under way, or done where *closed*."""
    closed: bool = False
    """Results stand behind it."""


_WORDS: dict[str, Rank] = {
    **dict.fromkeys(("seed", "fold", "trial", "run", "repeat", "repetition", "stage", "phase", "round"), Rank.OUTER),
    **dict.fromkeys(("epoch", "epochs", "ep", "episode", "generation"), Rank.EPOCH),
    **dict.fromkeys(("step", "steps", "global step", "global_step", "iter", "iters", "iteration"), Rank.STEP),
    **dict.fromkeys(("iterations", "it", "batch", "batches", "minibatch"), Rank.STEP),
}
_NUMBER = r"\d[\d,_]*"
_COUNTER = re.compile(
    rf"(?<![A-Za-z])({'|'.join(sorted(map(re.escape, _WORDS), key=len, reverse=True))})(?:\((\w{{1,16}})\))?"
    rf"[\s:=#\[(]{{0,8}}({_NUMBER})\s{{0,8}}[\])]?\s{{0,8}}(?:/|of\s)\s{{0,8}}[\[(]?({_NUMBER})",
    re.IGNORECASE,
)
_OF_EPOCH = re.compile(
    rf"(?<![A-Za-z])epoch(?:\((\w{{1,16}})\))?\s{{0,8}}[:#=]?\s{{0,8}}\[?\s{{0,8}}({_NUMBER})(?![\d.]|\s{{0,8}}/)\]?"
    rf"(?:\s{{0,2}}:?\s{{0,8}}[\[(]?\s{{0,8}}({_NUMBER})\s{{0,8}}/\s{{0,8}}({_NUMBER}))?",
    re.IGNORECASE,
)
_SIZED = r"(\d[\d.,]*[kKMGT]?)"
_AFTER_BAR = re.compile(rf"[^|]{{0,400}}\|\s{{0,12}}{_SIZED}/{_SIZED}[^\[]{{0,12}}\[([^\]]{{0,400}})")
_DRAWN = re.compile(rf"^\s{{0,12}}({_NUMBER})/({_NUMBER})\s{{1,4}}(?:\[[=>.\-# ]*\]|[━─╸╺]{{3,}})")
_RICH = re.compile(rf"[━─╸╺]{{3,}}\s{{0,4}}(?:(\d{{1,3}})\s?%|({_NUMBER})/({_NUMBER}))")
_ROW = re.compile(rf"^\s{{0,12}}({_NUMBER})/({_NUMBER})\s")
_PERCENT = re.compile(r"\bprogress\W{1,3}(\d{1,3}(?:\.\d{1,6})?)\s?%", re.IGNORECASE)
_DICT_EPOCH = re.compile(r"""['"]epoch['"]:\s?['"]?(\d+(?:\.\d+)?)""")
_NUM_EPOCHS = re.compile(rf"Num Epochs = ({_NUMBER})")
_RESULT = re.compile(r"[A-Za-z_\d)\]][\s:=|,-]{1,6}[+-]?(?:\d{1,12}\.\d|\d+(?:\.\d+)?e[+-]?\d|nan|inf)", re.IGNORECASE)
_ASIDE = re.compile(
    r"download|load|fetch|token|\bmap\b|filter|process|generat|extract|valid|\bval\b|eval|test|sanity|predict|infer"
    r"|checkpoint|sampl|convert|cach|sav|collect|index|compil|warm",
    re.IGNORECASE,
)
_BYTES = re.compile(r"[\d?]\s?[kKMGT]?i?B/s")
_DIGITS = re.compile(r"\d+")
_ASIDE_LOOPS = ("val", "test", "eval", "valid", "validation")
_HINT = re.compile(
    r"(?:^|[\s'\"._-])(?:(?:n|num|max|total)?[-_]?(?:train)?[-_]?epochs|max[-_]epoch)['\"]?[\s=,]{1,3}['\"]?(\d{1,7})\b"
)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")


def epochs_in(command: str) -> int | None:
    """The number of epochs that a command line asks for (`--max_epochs=40`, `trainer.max_epochs=40`); for output that
    counts epochs and does not say of how many."""
    found = {int(match[1]) for match in _HINT.finditer(command)}
    return found.pop() if len(found) == 1 and 0 not in found else None


def epochs_said_in(line: str) -> int | None:
    """Hugging Face's Trainer says once how many epochs there are."""
    match = _NUM_EPOCHS.search(line) if "Num Epochs" in line else None
    return None if match is None else int(_whole(match[1]))


def said_in(line: str) -> tuple[float | None, dict[str, float]]:
    """What a `::gpudeck progress=3/100 loss=0.12` line says: the share done (None: nothing of it) and its metrics."""
    _, _, rest = line.partition("::gpudeck ")
    share: float | None = None
    metrics: dict[str, float] = {}
    for word in rest.split()[:64]:
        name, equals, value = word.partition("=")
        if name == "progress":
            share = _share_of(value)
        elif equals and name[:1].isalpha() and len(name) <= 64:
            number = number_of(value)
            if number is not None:
                metrics[name] = number
    return share, metrics


def number_of(text: str) -> float | None:
    """A number as programs print it ("0.91,", "12 %", "1,234", "0,91", "nan"); None: it is none."""
    text = text.strip().rstrip("%.,;)]}").strip()
    if "," in text:
        text = text.replace(",", "" if _THOUSANDS.fullmatch(text) else ".")
    try:
        return float(text)
    except ValueError:
        return None


def reader_of(pattern: str) -> Callable[[str], float | None]:
    """Reads the share done by a user's pattern: its groups are the step and the total, or the percentage alone.

    Raises re.error for what is no pattern.
    """
    search = re.compile(pattern).search

    def read(line: str) -> float | None:
        match = search(line)
        if match is None:
            return None
        groups = [group for group in match.groups() if group is not None]
        if len(groups) >= 2:
            return _share_of(f"{groups[0]}/{groups[1]}")
        text = groups[0] if groups else match[0]
        if "/" in text:
            return _share_of(text)
        percent = number_of(text)
        return percent / 100 if percent is not None and 0 <= percent <= 100 else None

    return read


def marks_in(line: str) -> list[Mark]:
    """The counters in one line, the outermost first. Takes time linear in its length."""
    found: list[Mark] = []
    bar_at = line.find("%|")
    if bar_at >= 0:
        found += _bar(line, bar_at)
    elif "/" in line or " of " in line:
        found += _counters(line)
    if not found:
        found += _others(line)
    return sorted(found, key=lambda mark: mark.rank)


def _counters(line: str) -> Iterator[Mark]:
    aside = False
    epoch_seen = False
    for match in _COUNTER.finditer(line):
        word, kind, number, total = match.groups()
        rank = _WORDS[word.lower()]
        aside = aside or (kind or "").lower() in _ASIDE_LOOPS
        epoch_seen = epoch_seen or rank is Rank.EPOCH
        mark = _mark(Rank.ASIDE if aside else rank, _whole(number), _whole(total), label=word.lower())
        if mark is not None:
            closed = rank is not Rank.STEP and _RESULT.search(line, match.end(), match.end() + 200) is not None
            yield mark._replace(closed=closed, counted=rank is Rank.STEP)
    if not epoch_seen:
        yield from _epoch_alone(line)
    drawn = _DRAWN.match(line) or _RICH.search(line)
    if drawn is not None and (numbers := [group for group in drawn.groups() if group is not None]):
        number, total = (_whole(numbers[0]), 100.0) if len(numbers) == 1 else map(_whole, numbers)
        mark = _mark(Rank.STEP, number, total, label="drawn")
        if mark is not None:
            yield mark._replace(counted=True)


def _epoch_alone(line: str) -> Iterator[Mark]:
    """`Epoch: [3][ 10/391]` and `epoch 3 step 120/1000`: an epoch of nobody knows how many."""
    match = _OF_EPOCH.search(line)
    if match is None:
        return
    kind, number, step, steps = match.groups()
    rank = Rank.ASIDE if (kind or "").lower() in _ASIDE_LOOPS else Rank.EPOCH
    if rank is Rank.EPOCH:
        yield Mark(rank, _whole(number), None, "epoch")
    if step is not None:
        mark = _mark(Rank.STEP if rank is Rank.EPOCH else rank, _whole(step), _whole(steps), label="batch")
        if mark is not None:
            yield mark._replace(counted=True)


def _bar(line: str, at: int) -> Iterator[Mark]:
    """`desc:  42%|████▏     | 420/1000 [00:12<00:17, 33.1it/s]`, as tqdm, Hugging Face and Lightning draw it."""
    match = _AFTER_BAR.match(line, at + 2)
    if match is None:
        return
    label = line[max(0, at - 400) : at].rstrip("0123456789. ").strip()
    if _BYTES.search(match[3]):
        return
    aside = _ASIDE.search(label) is not None
    epoch = next(_epoch_of_label(label), None)
    if epoch is not None and not aside:
        yield epoch
    number, total = _sized(match[1]), _sized(match[2])
    whole = epoch is None and re.search(r"\bepochs?\b", label, re.IGNORECASE) is not None
    rank = Rank.ASIDE if aside else Rank.EPOCH if whole else Rank.STEP
    name = _DIGITS.sub("#", label)[:80] if epoch is None else "epoch bar"
    mark = _mark(rank, number, total, label=name)
    if mark is not None:
        yield mark._replace(counted=True)


def _epoch_of_label(label: str) -> Iterator[Mark]:
    for mark in _counters(label):
        if mark.rank is Rank.EPOCH:
            yield mark._replace(closed=False)
    row = _ROW.match(f"{label} ")
    mark = None if row is None else _mark(Rank.EPOCH, _whole(row[1]), _whole(row[2]), label="epoch")
    if mark is not None:
        yield mark


def _others(line: str) -> Iterator[Mark]:
    if "'epoch'" in line or '"epoch"' in line:
        match = _DICT_EPOCH.search(line)
        if match is not None:
            yield Mark(Rank.EPOCH, float(match[1]), None, "dict", counted=True)
    elif "%" in line:
        percent = _PERCENT.search(line)
        drawn = _RICH.search(line)
        share = percent[1] if percent is not None else drawn[1] if drawn is not None else None
        mark = None if share is None else _mark(Rank.STEP, float(share), 100.0, label="percent")
        if mark is not None:
            yield mark._replace(counted=True)
    elif "poch" in line or "POCH" in line:
        yield from _epoch_alone(line)


def _mark(rank: Rank, number: float, total: float, *, label: str) -> Mark | None:
    return Mark(rank, number, total, label) if 0 <= number <= total and 0 < total <= _MAX_TOTAL else None


def _whole(text: str) -> float:
    return float(text[:20].replace(",", "").replace("_", "") or 0)


def _sized(text: str) -> float:
    factor = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.get(text[-1], 1.0)
    number = number_of(text.rstrip("kKMGT"))
    return -1.0 if number is None else number * factor


def _share_of(text: str) -> float | None:
    """ "3/100", "42%" or "0.42"."""
    done, slash, whole = text.partition("/")
    number = number_of(done)
    total = number_of(whole) if slash else 100.0 if text.rstrip().endswith("%") else 1.0
    if number is None or total is None or not 0 < total <= _MAX_TOTAL or not 0 <= number <= total:
        return None
    return number / total
