"""Which value to try next, and what the trials came to, in words."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..headless.painted import Line
from ..text import duration, field_text, log_line, mib_text
from .trial import Trial


@dataclass(frozen=True, slots=True)
class Search:
    """What is known so far of ascending *values*."""

    values: Sequence[int]
    fits: int = -1
    """Place of the largest that fits; -1: none yet."""
    too_large: int | None = None
    """Place of the smallest that does not fit; None: none yet."""

    @property
    def best(self) -> int | None:
        return self.values[self.fits] if self.fits >= 0 else None

    @property
    def exhausted(self) -> bool:
        """The largest value of all fits: larger ones may, too."""
        return self.fits == len(self.values) - 1

    def next(self) -> int | None:
        """The value to try; None: it is known."""
        if self.exhausted:
            return None
        if self.too_large is None:
            return self.values[self._doubled()]
        return self.values[(self.fits + self.too_large) // 2] if self.too_large - self.fits > 1 else None

    def told(self, value: int, *, fits: bool) -> Search:
        """After the trial of what `next` gave."""
        place = bisect_right(self.values, value) - 1
        return replace(self, fits=place) if fits else replace(self, too_large=place)

    def _doubled(self) -> int:
        """The largest that is at most twice the best, but one further at least."""
        if self.fits < 0:
            return 0
        return max(self.fits + 1, bisect_right(self.values, 2 * self.values[self.fits]) - 1)


def grid(low: int, high: int, step: int | None) -> Sequence[int]:
    """The values to choose from. Without a *step*: powers of two between two such, else every whole number."""
    if step is None and low > 0 and low & (low - 1) == 0 and high & (high - 1) == 0:
        return tuple(1 << power for power in range(low.bit_length() - 1, high.bit_length()))
    return range(low, high + 1, step or 1)


_WORDS = {"fits": "fits", "oom": "out of memory", "failed": "failed", "stopped": "stopped"}


@dataclass(frozen=True, slots=True)
class Found:
    """A search that is over, or was stopped."""

    task: str
    var: str
    search: Search
    trials: Sequence[Trial]
    simulated: bool = False
    """On GPUs that are: their memory is made up."""

    @property
    def best(self) -> Trial | None:
        """That of the largest value that fits."""
        return max(
            (trial for trial in self.trials if trial.verdict == "fits"), key=lambda trial: trial.value, default=None
        )

    @property
    def known(self) -> bool:
        """Nothing is left to try."""
        return self.best is not None and self.search.next() is None

    @property
    def exit_code(self) -> int:
        return 0 if self.known else 1


def trial_line(trial: Trial, var: str, widest: int) -> Line:
    """*widest*: the largest value that there may be."""
    value = f"{trial.value:>{len(str(widest))}}"
    peak = "-" if trial.peak_mib is None else mib_text(trial.peak_mib)
    tone = {"fits": "good", "oom": "warn"}.get(trial.verdict, "bad")
    words = f"{var}={value}  {_WORDS[trial.verdict]:<13}  peak {peak:>9}  {duration(trial.duration_s):>8}"
    return Line(words, tone=tone)  # pyright: ignore[reportArgumentType]


def answer(found: Found) -> list[Line]:
    """The largest value and how it is kept, or why there is none."""
    lines = _end(found.trials[-1], found.var) if found.trials else []
    best = found.best
    if best is None:
        lowest = Line(f"not even {found.var} = {found.search.values[0]} fits", tone="bad")
        return [*lines, lowest] if found.search.too_large == 0 else lines
    setting = f"{found.var} = {best.value}"
    so_far = "" if found.known else "; larger values were not all tried"
    lines.append(Line(f"{setting} fits{_peak(best)}{so_far}", tone="bold"))
    if found.search.exhausted:
        lines.append(Line("  it is the largest of the range: more may fit"))
    if found.simulated:
        lines.append(Line("  SIM: simulated GPUs, their memory is made up: nothing is known of real ones", tone="warn"))
    return [*lines, *_kept(setting, best)]


def _kept(setting: str, best: Trial) -> list[Line]:
    """How it gets to the task."""
    lines = [
        Line(f"  for one run     `gpudeck --set {setting.replace(' ', '')}`"),
        Line(f"  in the file     [vars]: {setting}"),
    ]
    if best.total_mib is not None:
        card = f'min_memory = "{round(best.total_mib / 1024)}GiB"'
        lines.append(Line(f"  for such cards  [[gpu_profile]]: {card}, vars = {{ {setting} }}"))
    return lines


def _end(trial: Trial, var: str) -> list[Line]:
    """What ended the search before its time."""
    if trial.verdict == "stopped":
        return [Line(f"stopped at {var} = {trial.value}: nothing is known of it", tone="warn")]
    if trial.verdict != "failed":
        return []
    lines = [Line(f"{var} = {trial.value} failed for another reason: {field_text(trial.reason)}", tone="bad")]
    lines += [Line(f"  | {log_line(line)}") for line in trial.last_lines()]
    return [*lines, Line(f"  its log: {field_text(trial.logs[0])}")]


def _peak(trial: Trial) -> str:
    if trial.peak_mib is None:
        return ""
    peak = f": peak {mib_text(trial.peak_mib)}"
    if trial.total_mib is None or trial.room_mib is None:
        return peak
    return f"{peak} of {mib_text(trial.total_mib)}, {mib_text(trial.room_mib)} to spare"


def as_json(found: Found) -> dict[str, Any]:
    """For --json. Sizes in MiB, times in seconds; `value` is null where none is known to fit."""
    best = found.best
    return {
        "task": found.task,
        "var": found.var,
        "value": best.value if best is not None else None,
        "complete": found.known,
        "exhausted": found.search.exhausted,
        "simulated": found.simulated,
        "peak_mib": best.peak_mib if best is not None else None,
        "total_mib": best.total_mib if best is not None else None,
        "room_mib": best.room_mib if best is not None else None,
        "trials": [asdict(trial) for trial in found.trials],
    }
