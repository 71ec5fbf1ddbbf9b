"""Counters and bars in a line that a task printed: tqdm, Hugging Face, Lightning, Keras, rich and hand-written ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from .totals import unit_of

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
    unit: str = ""
    """What is counted, as `totals` calls it, where *total* is not said: settings may tell it."""


_WORDS: dict[str, Rank] = {
    **dict.fromkeys(("seed", "fold", "trial", "run", "repeat", "repetition", "stage", "phase", "round"), Rank.OUTER),
    **dict.fromkeys(("epoch", "epochs", "ep", "episode", "generation"), Rank.EPOCH),
    **dict.fromkeys(("step", "steps", "global step", "global_step", "iter", "iters", "iteration"), Rank.STEP),
    **dict.fromkeys(("iterations", "it", "batch", "batches", "minibatch", "update", "updates"), Rank.STEP),
    **dict.fromkeys(("timestep", "timesteps", "num_updates", "total timesteps", "total_timesteps"), Rank.STEP),
}
_NUMBER = r"\d[\d,_]*"
_COUNTER = re.compile(
    rf"(?<![A-Za-z])({'|'.join(sorted(map(re.escape, _WORDS), key=len, reverse=True))})(?:\((\w{{1,16}})\))?"
    rf"[\s:=#\[(]{{0,8}}({_NUMBER})\s{{0,8}}[\])]?\s{{0,8}}(?:/|of\s)\s{{0,8}}[\[(]?({_NUMBER})",
    re.IGNORECASE,
)
_OF_EPOCH = re.compile(
    rf"(?<![\w.-])epoch(?:\((\w{{1,16}})\))?\s{{0,8}}[:#=]?\s{{0,8}}[\[#]?\s{{0,8}}({_NUMBER})(?![\d.]|\s{{0,8}}/)\]?"
    rf"(?:\s{{0,2}}:?\s{{0,8}}[\[(]?\s{{0,8}}({_NUMBER})\s{{0,8}}/\s{{0,8}}({_NUMBER}))?",
    re.IGNORECASE,
)


def _counting(*words: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?<![\w.-])({'|'.join(words)})['\"]?"
        rf"(?:\s{{0,4}}[:=#]\s{{0,12}}|\s{{1,12}}|\s?[\[(]\s{{0,6}})['\"]?({_NUMBER})(?![\w%]|[.,]\d|\s{{0,8}}(?:/|of\s))",
        re.IGNORECASE,
    )


_ALONE = _counting(
    "global[ _]steps?", "total[ _]timesteps", "timesteps?", "num_updates", "steps?", "iter(?:ation)?s?", "updates?",
    "episodes?", "rounds?", "trials?", "generations?", "(?:mini)?batch",
)  # fmt: skip
_OF_ALL = _counting("global[ _]steps?", "num_updates")
"""What counts all of the task beside a counter of the epoch."""
_SETTINGS = re.compile(r"(?:Namespace|Args|Arguments|Config)\(")
_RATE = re.compile(r"\b(?:s|ms|secs?|seconds|tokens|samples|images|img|flops)/$", re.IGNORECASE)
_ELSEWHERE = re.compile(
    r"\bbest\b|\bload|\bresum|\brestor|\bsav(?:e|ed|ing)\b|\bcheckpoint|\bwarm|\bevery\b|\blast\b|\bpatience|\bfrom\b"
    r"|\buntil\b|\bper\b|\bafter\b|\b(?:total|max|num|number\sof)\s(?:\w{1,16}\s)?$"
    r"|\b(?:valid\w{0,10}|val|eval\w{0,10}|test\w{0,10}|predict\w{0,10})\W{1,3}$",
    re.IGNORECASE,
)
"""What is counted behind such a word is not where the task is now."""
_OVER = re.compile(r"\b(?:finished|done|completed?|ended|took|over|summary)\b", re.IGNORECASE)
_SIZED = r"(\d[\d.,]*[kKMGT]?)"
_AFTER_BAR = re.compile(rf"[^|]{{0,400}}\|\s{{0,12}}{_SIZED}/{_SIZED}[^\[]{{0,12}}\[([^\]]{{0,400}})")
_DRAWN = re.compile(rf"^\s{{0,12}}({_NUMBER})/({_NUMBER})\s{{1,4}}(?:\[[=>.\-# ]*\]|[━─╸╺]{{3,}}|-\s\d{{1,6}}m?s\b)")
_RICH = re.compile(rf"[━─╸╺]{{3,}}\s{{0,4}}(?:(\d{{1,3}})\s?%|({_NUMBER})/({_NUMBER}))")
_LAP = re.compile(r"(?:^|[\s\[(])(\d+)/(\d+)[\])]?:?$")
"""What `desc=f"[{epoch}/{epochs}]"` puts before a bar."""
_ROW = re.compile(rf"^\s{{0,12}}({_NUMBER})/({_NUMBER})\s")
_ETA = re.compile(
    r"\b(?:eta|remaining|time left|time remaining)\b['\"]?\s{0,3}[:=]?\s{0,3}['\"]?"
    r"(?:(?:(\d{1,3}) days?,? ?)?(\d{1,3}):(\d\d)(?::(\d\d))?"
    r"|((?:\d{1,6}(?:\.\d{1,6})?\s?(?:ms|us|[dhms]|hours?|minutes?|min|seconds?|secs?)\b\s?){1,4}))",
    re.IGNORECASE,
)
_SPAN = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s?(ms|us|[dhms])")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_STEP_TIME = re.compile(r"\btime['\"]?\s{0,3}[:=]?\s{0,3}(\d{1,6}\.\d{1,6})", re.IGNORECASE)
_STEP_TIME_OTHER = re.compile(r"\w_time:\s{0,3}(\d{1,6}\.\d{1,6})", re.IGNORECASE)
_PERCENT = re.compile(
    r"\bprogress\b[^\w%]{1,120}(\d{1,3}(?:\.\d{1,6})?)\s?%|\[[#=>\-. ]{5,120}\]\s{0,2}(\d{1,3}(?:\.\d{1,6})?)\s?%"
    r"|(?<![\w.])(\d{1,3}(?:\.\d{1,6})?)\s?%\s(?:done|complete|completed|finished)\b",
    re.IGNORECASE,
)
_OF_PERCENT = re.compile(
    rf"(?<![\w./])({_NUMBER})\s?/\s?({_NUMBER})\s{{0,2}}[\[(]\s{{0,3}}\d{{1,3}}(?:\.\d{{1,6}})?\s?%"
)
"""`[ 150/390 ( 38%)]`, `12/40 [30%]`"""
_SCORE = re.compile(r"acc|correct|precision|recall|\bhits?\b|success", re.IGNORECASE)
_OF_FRAME = re.compile(rf"\[({_NUMBER})/({_NUMBER})\]\s{{1,4}}\d{{1,3}}(?:\.\d{{1,6}})?%\|")
"""ignite's bar"""
_OUT_OF = re.compile(rf"\b(?:Done|Completed|Finished)\s{{1,4}}({_NUMBER})\s{{1,4}}(?:out\s)?of\s{{1,4}}({_NUMBER})\b")
_TRAIN = re.compile(r"\bTrain:\s{0,3}(\d{1,6})\s{1,3}\[")
_BRACKETS = re.compile(
    rf"^(?:\[[^\]]{{0,40}}\d\d:\d\d[^\]]{{0,20}}\]\s?)?\s{{0,4}}\[\s{{0,6}}({_NUMBER})\s?/\s?({_NUMBER})\s?\]"
    rf"(?:\s{{0,2}}\[\s{{0,6}}({_NUMBER})\s?/\s?({_NUMBER})\s?\])?"
)
_PAIRS = re.compile(
    rf"\[\s{{0,6}}({_NUMBER})\s?/\s?({_NUMBER})\s?\]\s{{0,2}}\[\s{{0,6}}({_NUMBER})\s?/\s?({_NUMBER})\s?\]"
)
_BEHIND = re.compile(rf"\]?:?\s{{0,3}}\[\s{{0,6}}({_NUMBER})\s?/\s?({_NUMBER})\s?\]")
"""`Epoch: [3/100]  [ 625/1251]`"""
_END_OF = re.compile(r"\b(?:end of|finished|completed|done with)\s{1,4}$", re.IGNORECASE)
_BUILDS = re.compile(
    r"\s{0,3}(?:/\S|:|\S{0,40}c\+\+|\S{0,40}g\+\+|clang|\S{0,40}nvcc|gcc|Building|Linking|Compiling|Generating|RUN\b|COPY\b|FROM\b)"
)
_BOOSTED = re.compile(r"^\[(\d{1,9})\]\s{1,4}(?:\S{1,60}:[-+\d.naif]|\S{1,60}'s \S)|^(\d{1,9}):\s{1,4}(?:learn|test): ")
"""xgboost, LightGBM; CatBoost"""
_BOXED = re.compile(
    rf"^\|\s{{1,20}}(?:\w{{1,20}}/)?(total_timesteps|timesteps|global_step|epoch|step)\s{{1,40}}\|\s{{1,12}}({_NUMBER})\s{{0,20}}\|",
    re.IGNORECASE,
)
_DICT_EPOCH = re.compile(r"""['"]epoch['"]:\s?['"]?(\d+(?:\.\d+)?)""")
_RESULT = re.compile(
    r"[A-Za-z_\d)\]](?<!\blr)(?<!_lr)(?<!\brate)(?<!_rate)[\s:=|,'\"-]{1,6}[+-]?(?:\d{1,12}\.\d|\d+(?:\.\d+)?e[+-]?\d|nan|inf)",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"download|load|fetch|token|\bmap\b|filter|process|generat|extract|valid|\bval\b|eval|test|sanity|predict|infer"
    r"|checkpoint|sampl|convert|cach|sav|collect|index|compil|warm",
    re.IGNORECASE,
)
_BYTES = re.compile(r"[\d?]\s?[kKMGT]?i?B/s")
_DIGITS = re.compile(r"\d+")
_ASIDE_LOOPS = ("val", "test", "eval", "valid", "validation")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")


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


def left_in(line: str, marks: Sequence[Mark]) -> float | None:
    """The seconds to the end of all that a line promises (`eta: 1 day, 2:03:04`); None: it does not, or that is only
    about the epoch: the line counts steps, and their time each makes no more of it."""
    if (match := _ETA.search(line)) is None:
        return None
    days, hours, minutes, seconds, spans = match.groups()
    if spans is not None:
        left_s = sum(float(number) * _SECONDS[unit.lower()] for number, unit in _SPAN.findall(spans.lower()))
    elif seconds is None:
        left_s = float(hours) * 60 + float(minutes)
    else:
        left_s = int(days or 0) * 86400.0 + int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    if any(mark.rank is Rank.ASIDE for mark in marks):
        return None
    step = next((mark for mark in marks if mark.rank is Rank.STEP and mark.total is not None), None)
    if step is None or step.total is None or not any(mark.rank is Rank.EPOCH for mark in marks):
        return left_s if not _ASIDE.search(line[: match.start()]) or step is None else None
    each = _STEP_TIME.search(line) or _STEP_TIME_OTHER.search(line)
    return left_s if each is not None and left_s > 1.5 * float(each[1]) * (step.total - step.number) + 1 else None


def number_of(text: str) -> float | None:
    """A number as programs print it ("0.91,", "12 %", "1,234", "0,91", "nan"); None: it is none."""
    text = text.strip().rstrip("%.,;)]}").strip()
    if "," in text:
        text = text.replace(",", "" if _THOUSANDS.fullmatch(text) else ".")
    try:
        return float(text)
    except ValueError:
        return None


def reader_of(pattern: str, total: float | None = None) -> Callable[[str], float | Mark | None]:
    """Reads the share done by a user's pattern: its groups are the step and the total, or a percentage alone, or the
    step alone, of *total*. A mark without a total is what is left to `totals`.

    Raises re.error for what is no pattern.
    """
    search = re.compile(pattern).search
    unit = "epoch" if "poch" in pattern else "step"

    def read(line: str) -> float | Mark | None:
        match = search(line)
        if match is None:
            return None
        places = [place for place in range(1, search.__self__.groups + 1) if match[place] is not None] or [0]
        if len(places) >= 2:
            return _share_of(f"{match[places[0]]}/{match[places[1]]}")
        text = match[places[0]]
        if "/" in text:
            return _share_of(text)
        number = number_of(text)
        if number is None or number < 0:
            return None
        if total is not None:
            return number / total if number <= total else None
        if "%" in text or line[match.end(places[0]) :].lstrip().startswith("%"):
            return number / 100 if number <= 100 else None
        return Mark(Rank.STEP, number, None, unit, counted=True, unit=unit)

    return read


def marks_in(line: str) -> list[Mark]:
    """The counters in one line, the outermost first. Takes time linear in its length."""
    bar_at = line.find("%|")
    if _SETTINGS.search(line):
        return []
    found = list(_bar(line, bar_at)) if bar_at >= 0 else []
    if not found and ("/" in line or " of " in line):
        found = list(_counters(line))
    if not found:
        found = list(_others(line))
    if not any(mark.rank in (Rank.STEP, Rank.ASIDE) for mark in found):
        found += _alone(line)
    elif "num_updates" in line or "global" in line:
        found += (mark for mark in _alone(line, _OF_ALL))
    if any(mark.rank is Rank.STEP for mark in found):  # results of a step, not of the epoch
        found = [mark._replace(closed=False) if mark.total is None and mark.closed else mark for mark in found]
    return sorted(found, key=lambda mark: mark.rank)


def _counters(line: str) -> Iterator[Mark]:
    aside = False
    epoch_seen = stepped = False
    end = 0
    for match in _COUNTER.finditer(line):
        word, kind, number, total = match.groups()
        rank = _WORDS[word.lower()]
        aside = aside or (kind or "").lower() in _ASIDE_LOOPS
        epoch_seen = epoch_seen or rank is Rank.EPOCH
        stepped = stepped or rank is Rank.STEP
        end = match.end()
        if rank is not Rank.STEP and _is_elsewhere(line, match.start()):
            continue
        mark = _mark(Rank.ASIDE if aside else rank, _whole(number), _whole(total), label=word.lower())
        if mark is not None:
            closed = rank is not Rank.STEP and (_has_results(line, end) or _END_OF.search(line, 0, match.start()))
            yield mark._replace(closed=bool(closed), counted=rank is Rank.STEP)
    if not epoch_seen:
        for mark in _epoch_alone(line):
            stepped = stepped or mark.total is not None
            yield mark
    drawn = _DRAWN.match(line) or _RICH.search(line)
    if drawn is not None and (numbers := [group for group in drawn.groups() if group is not None]):
        number, total = (_whole(numbers[0]), 100.0) if len(numbers) == 1 else map(_whole, numbers)
        yield from _steps(number, total, "drawn")
    elif not stepped:
        yield from _ratios(line, end, of_epoch=epoch_seen)


def _ratios(line: str, start: int, *, of_epoch: bool) -> Iterator[Mark]:
    """Counters that no word names: `[2/25][750/1583]`, `[ 150/390 ( 38%)]`, `Done  12 out of  40`, `[3/10]`; behind
    *start*, where the last that one names ends."""
    if of_epoch and (found := _BEHIND.match(line, start)) is not None:
        yield from _steps(_whole(found[1]), _whole(found[2]), "batch")
        return
    train = _TRAIN.search(line)
    if train is not None:
        yield Mark(Rank.EPOCH, float(train[1]), None, "epoch", unit="epoch")
    if (found := _OF_FRAME.search(line, start) or _OF_PERCENT.search(line, start)) is not None:
        before = line[: found.start()]
        if _SCORE.search(before) is not None:
            return
        if train is None and _ASIDE.search(before) is not None:
            mark = _mark(Rank.ASIDE, _whole(found[1]), _whole(found[2]), label="percent")
            yield from () if mark is None else (mark._replace(counted=True),)
        else:
            yield from _steps(_whole(found[1]), _whole(found[2]), "of percent")
    elif (found := _OUT_OF.search(line)) is not None:
        yield from _steps(_whole(found[1]), _whole(found[2]), "out of")
    elif not of_epoch and (found := _BRACKETS.match(line) or _PAIRS.search(line)) is not None:
        number, total = _whole(found[1]), _whole(found[2])
        if found[3] is not None:
            mark = _mark(Rank.EPOCH, number, total, label="epoch")
            if mark is not None:
                yield mark
                yield from _steps(_whole(found[3]), _whole(found[4]), "batch")
        elif _BUILDS.match(line, found.end()) is None:
            yield from _steps(number, total, "brackets")


def _steps(number: float, total: float, label: str) -> Iterator[Mark]:
    mark = _mark(Rank.STEP, number, total, label=label)
    if mark is not None:
        yield mark._replace(counted=True)


def _is_elsewhere(line: str, at: int) -> bool:
    return _ELSEWHERE.search(line, max(0, at - 60), at) is not None


def _has_results(line: str, at: int) -> bool:
    return _RESULT.search(line, at, at + 200) is not None or _OVER.search(line, at, at + 40) is not None


def _epoch_alone(line: str) -> Iterator[Mark]:
    """`Epoch: [3][ 10/391]` and `epoch 3 step 120/1000`: an epoch of nobody knows how many."""
    match = _OF_EPOCH.search(line)
    if match is None or _is_elsewhere(line, match.start()):
        return
    kind, number, step, steps = match.groups()
    rank = Rank.ASIDE if (kind or "").lower() in _ASIDE_LOOPS else Rank.EPOCH
    if rank is Rank.EPOCH:
        closed = step is None and _has_results(line, match.end())
        yield Mark(rank, _whole(number), None, "epoch", closed=closed, unit="epoch")
    if step is not None:
        mark = _mark(Rank.STEP if rank is Rank.EPOCH else rank, _whole(step), _whole(steps), label="batch")
        if mark is not None:
            yield mark._replace(counted=True)


def _alone(line: str, form: re.Pattern[str] | None = None) -> Iterator[Mark]:
    """`iter 80: loss 3.2`, `"step": 120`, `Trial 12 finished`, `[12] train-rmse:0.5`: settings may tell of how many."""
    if (found := _BOOSTED.match(line)) is not None:
        # LightGBM counts from one.
        number = float(found[1] or found[2]) + ("'s " not in found[0])
        yield Mark(Rank.STEP, number, None, "round", counted=True, unit="round")
        return
    if (found := _BOXED.match(line)) is not None:
        word = found[1].lower()
        rank = Rank.EPOCH if word == "epoch" else Rank.STEP
        yield Mark(rank, _whole(found[2]), None, word, counted=rank is Rank.STEP, unit=unit_of(word))
        return
    for match in (form or _ALONE).finditer(line):
        word = match[1].lower().replace("_", " ")
        if _is_elsewhere(line, match.start()) or _RATE.search(line, max(0, match.start() - 10), match.start()):
            continue
        rank = Rank.STEP if "batch" in word else _WORDS.get(word.replace("global steps", "global step"), Rank.EPOCH)
        if word.rstrip("s") in ("episode", "generation", "round", "trial"):
            rank = Rank.EPOCH if word[0] in "eg" else Rank.OUTER
            closed = _has_results(line, match.end())
            yield Mark(rank, _whole(match[2]), None, word, closed=closed, unit=unit_of(word))
        else:
            yield Mark(Rank.STEP, _whole(match[2]), None, word, counted=True, unit=unit_of(word))
        return


def _bar(line: str, at: int) -> Iterator[Mark]:
    """`desc:  42%|████▏     | 420/1000 [00:12<00:17, 33.1it/s]`, as tqdm, Hugging Face and Lightning draw it."""
    match = _AFTER_BAR.match(line, at + 2)
    if match is None:
        if (frame := _OF_FRAME.search(line)) is not None:
            yield from (mark._replace(closed=False) for mark in _counters(line[: frame.start()]))
            yield from _steps(_whole(frame[1]), _whole(frame[2]), "batch")
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
        if mark.rank in (Rank.OUTER, Rank.EPOCH):
            yield mark._replace(closed=False)
    row = _ROW.match(f"{label} ") or _LAP.search(label)
    mark = None if row is None else _mark(Rank.EPOCH, _whole(row[1]), _whole(row[2]), label="epoch")
    if mark is not None:
        yield mark


def _others(line: str) -> Iterator[Mark]:
    if "'epoch'" in line or '"epoch"' in line:
        match = _DICT_EPOCH.search(line)
        if match is not None and "." in match[1]:
            yield Mark(Rank.EPOCH, float(match[1]), None, "dict", counted=True, unit="epoch")
        elif match is not None:
            yield Mark(Rank.EPOCH, float(match[1]), None, "row", closed=_has_results(line, match.end()), unit="epoch")
    elif "%" in line:
        percent = _PERCENT.search(line)
        drawn = _RICH.search(line)
        share = next(filter(None, percent.groups())) if percent is not None else drawn[1] if drawn is not None else None
        if share is not None:
            yield from _steps(float(share), 100.0, "percent")
        elif "poch" in line or "POCH" in line:
            yield from _epoch_alone(line)
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
