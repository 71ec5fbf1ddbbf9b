"""How many epochs, steps, trials there are to be, for output that counts and does not say of how many: from the
command line (`--epochs 90`, `trainer.max_steps=5000`), and from what programs print of their settings. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

UNITS = {
    "epoch": "epoch", "ep": "epoch", "episode": "episode", "generation": "generation", "round": "round",
    "trial": "trial", "estimator": "round", "iter": "step", "iteration": "step", "step": "step", "update": "step",
    "num_update": "step", "global step": "step", "timestep": "timestep", "total timestep": "timestep",
    "frame": "timestep", "env step": "timestep", "environment step": "timestep",
}  # fmt: skip
"""What is counted, by the singular of the word that counts it."""
_INSTEAD = {"step": ("timestep",), "round": ("step",), "timestep": ()}
"""A counter of the first may be one of the second, where nothing says how many there are of the first."""
_MOST = 1e12
_MOST_NAMES = 32
_PLAIN_NUMBER = r"\d{1,3}(?:[,_]\d{3}){1,4}|\d{1,13}(?:\.0{1,6})?(?:e\+?\d{1,2})?[kKM]?"
_SETTING = re.compile(
    r"(?<![\w.]-)(?<![\w.])((?:[A-Za-z_]\w{0,40}[./]){0,6})(--?)?"
    r"((?:(?:max|num|nb|n|total|scheduled|number\s{1,2}of)[-_ ]{0,2}){0,2}"
    r"(?:(?:training|train|optimization|optimizer|gradient|env|environment|boost|boosting|federated|policy)"
    r"[-_ ]{0,2}){0,2}"
    r"(?:epoch|iteration|iter|timestep|step|update|round|trial|estimator|frame|episode|generation)s?)"
    rf"(['\"]?(?:\s{{0,8}}[=:|]\s{{0,30}}|\s{{0,2}}\.{{3,80}}\s{{0,4}}|,?\s{{1,40}}|,))['\"]?({_PLAIN_NUMBER})(?![\w%/]|[.,]\d)",
    re.IGNORECASE,
)
_MAY_BE = re.compile(r"epoch|iter|step|update|round|trial|estimator|frame|episode|generation", re.IGNORECASE)
_PARTS = re.compile(r"[-_\s]+|(?<=[a-z])(?=[A-Z])")
_GLUED = re.compile(r"(max|num|nb|n)(?=(?:epoch|iter|step)[a-z]*$)", re.IGNORECASE)
"""nepochs, niter, maxiter."""
_OF_ALL = frozenset(("max", "num", "nb", "n", "total", "scheduled", "number", "of"))
_OTHERS = re.compile(r"warm|sched|eval|test|\bval|sampl|diffus|infer|anneal|decay|early|search|env\b", re.IGNORECASE)
_RUNNING = frozenset(("scheduled epochs", "total optimization steps", "total training steps", "num epochs"))
"""Loops say so themselves when they begin."""


class Trust(IntEnum):
    """Where a total is from; the higher, the more it is worth."""

    PRINTED = 1
    COMMAND = 2
    LOOP = 3


class Setting(NamedTuple):
    """A number that something is to be done so often."""

    name: str
    unit: str
    total: float
    trust: Trust


def unit_of(word: str) -> str:
    """What a counter's word counts; "" for what no setting tells the total of."""
    word = " ".join(word.lower().replace("_", " ").split())
    singular = word.removesuffix("s") if word != "s" else word
    return UNITS.get(singular) or UNITS.get(singular.replace(" ", "_"), "")


def settings_in(text: str, *, command: bool = False) -> Iterator[Setting]:
    """The totals that a command line or a printed line names. Takes time linear in its length."""
    if not _MAY_BE.search(text):
        return
    for match in _SETTING.finditer(text):
        path, dashes, said, between, number = match.groups()
        words = [word for word in _PARTS.split(_GLUED.sub(r"\1_", said)) if word]
        before = match.start() - 2
        if not dashes and before >= 0 and text[before].isdigit():  # "3 epochs: 12 images each"
            continue
        if not _names_a_total(words, path, dashes or "", between, command=command):
            continue
        total = _number(number)
        unit = _unit(words)
        if unit and total is not None:
            name = " ".join(words).lower()
            trust = Trust.COMMAND if command else Trust.LOOP if name in _RUNNING and "." not in path else Trust.PRINTED
            yield Setting(path.lower() + name, unit, total, trust)


def _names_a_total(words: list[str], path: str, dashes: str, between: str, *, command: bool) -> bool:
    if path and _OTHERS.search(path):
        return False
    first, last = words[0].lower(), words[-1].lower()
    of_all = first in _OF_ALL
    many = last.endswith("s")
    if not of_all and not many:
        return False
    if not between.strip("'\", ") and not (command or dashes):  # prose: "after 3 epochs 12 images"
        return False
    if not of_all and len(words) == 1 and last not in ("epochs", "iterations", "iters") and not command:
        return False  # "steps: 10" may count
    # n_steps and num_timesteps are the lengths of rollouts and of diffusion.
    if first == "n" and last in ("steps", "step"):
        return False
    if last.startswith("timestep") and "|" in between:  # a row of a table that counts
        return False
    if last.startswith(("timestep", "frame")) and (
        first not in ("total", "max") and not (command and dashes and of_all)
    ):
        return False
    return not (last.startswith("update") and first in ("num", "n", "nb") and not command)


def _unit(words: list[str]) -> str:
    lower = [word.lower() for word in words]
    if len(lower) > 1 and lower[-2] in ("env", "environment"):
        return "timestep"
    return unit_of(lower[-1])


def _number(text: str) -> float | None:
    factor = {"k": 1e3, "m": 1e6}.get(text[-1].lower(), 1.0)
    try:
        number = float(text.rstrip("kKM").replace(",", "").replace("_", "")) * factor
    except (ValueError, OverflowError):
        return None
    return number if 0 < number <= _MOST and number.is_integer() else None


class Totals:
    """What is known of how many there are to be."""

    def __init__(self, command: str = "") -> None:
        self._said: dict[str, dict[str, Setting]] = {}
        """By unit, by name."""
        self._counts: set[str] = set()
        """Names that have had several values: they count, or are of several loops."""
        for setting in settings_in(command, command=True):
            self._take(setting)

    def read(self, line: str) -> None:
        """Take a line in that the task has printed."""
        for setting in settings_in(line):
            self._take(setting)

    def _take(self, setting: Setting) -> None:
        named = self._said.setdefault(setting.unit, {})
        if setting.name in self._counts:
            return
        known = named.get(setting.name)
        if known is not None and known.total != setting.total and known.trust == setting.trust:
            self._counts.add(setting.name)
            del named[setting.name]
        elif (known is None or setting.trust > known.trust) and len(named) < _MOST_NAMES:
            named[setting.name] = setting

    def of(self, unit: str) -> float | None:
        """How many there are to be of a unit; None: nobody said, or they contradict each other."""
        for candidate in (unit, *_INSTEAD.get(unit, ())):
            if (total := self._agreed(candidate)) is not None:
                return total
        return None

    def trusted(self, unit: str, trust: Trust) -> bool:
        """Whether what is known of a unit is worth so much."""
        return any(setting.trust >= trust for setting in self._said.get(unit, {}).values())

    def is_of_training(self) -> bool:
        """Whether Hugging Face's words are used: num_train_epochs."""
        return any("train" in setting.name for setting in self._said.get("epoch", {}).values())

    def doubt(self, unit: str, total: float) -> None:
        """A counter has passed it: that is no total of it."""
        for candidate in (unit, *_INSTEAD.get(unit, ())):
            named = self._said.get(candidate, {})
            for name in [name for name, setting in named.items() if setting.total == total]:
                self._counts.add(name)
                del named[name]

    def _agreed(self, unit: str) -> float | None:
        named = self._said.get(unit, {}).values()
        best = max((setting.trust for setting in named), default=None)
        totals = {setting.total for setting in named if setting.trust == best}
        return totals.pop() if len(totals) == 1 else None
