"""The small languages inside values: durations, sizes, signals, GPU lists, halt."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Iterable, Sequence
from datetime import date

from ..core.hours import Clock, Hours
from ..core.spec import Halt
from .problems import BadValueError
from .values import is_list, is_table, shown

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
BYTES = {
    "KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4,
    "KIB": 1024, "MIB": 1024**2, "GIB": 1024**3, "TIB": 1024**4,
    "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4,
}  # fmt: skip
MIB = 1024**2
LARGEST_MIB = MIB**2
LONGEST_S = 100 * 365.25 * 86400
MOST_GPUS = 1024

_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")
_SBATCH_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<clock>\d+(?::\d+){0,2})")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_HALT = re.compile(r"(soon|now),(fail|early)=(\d+(?:\.\d+)?)(%?)")
HALTS = '"never", "soon,fail=3", "now,fail=1", "soon,fail=30%" or "soon,early=3"'
_RANGE = re.compile(r"(\d+)-(\d+)")
_UUID = re.compile(r"(GPU|MIG)-[A-Za-z0-9/-]+")


def duration_s(value: object) -> float:
    """Seconds of "30s", "1h30m", "2d", or of a bare number."""
    seconds = _seconds(value)
    if seconds > LONGEST_S:
        raise BadValueError(f"must be at most 100 years, got {shown(value)}")
    return seconds


def _seconds(value: object) -> float:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not 0 <= value < math.inf:
            raise BadValueError(f"must be at least 0 seconds, got {shown(value)}")
        return float(min(value, math.inf if isinstance(value, float) else 2 * int(LONGEST_S)))
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        raise BadValueError(f'must be a duration such as "30s", "6h" or "1h30m", got {shown(value)}')
    return sum(float(number) * SECONDS[unit] for number, unit in _DURATION_PART.findall(value))


def duration_text(seconds: float) -> str:
    """What `duration_s` reads as whole *seconds*: "90s", "30m"."""
    unit = next((unit for unit in "dhm" if seconds and seconds % SECONDS[unit] == 0), "s")
    return f"{seconds / SECONDS[unit]:g}{unit}"


def sbatch_time_s(value: object) -> float:
    """Seconds of a limit as sbatch's --time has it: 90 and "90" are minutes, "24:00:00", "1-12"; also of "24h"."""
    found = _SBATCH_TIME.fullmatch(value) if isinstance(value, str) else None
    if found is not None:
        clock = [float(part) for part in found["clock"].split(":")]
        days = found["days"]
        units = (3600, 60, 1) if days or len(clock) == 3 else (60, 1)
        return duration_s(86400 * int(days or 0) + sum(n * unit for n, unit in zip(clock, units, strict=False)))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return 60 * duration_s(value)
    try:
        return duration_s(value)
    except BadValueError:
        raise BadValueError(f'must be a limit such as "24h", "24:00:00" or 90 (minutes), got {shown(value)}') from None


def size_mib(value: object) -> int:
    """MiB of "1GiB", "40GB", "512M", rounded up. GB is 1000³ bytes; GiB and G are 1024³."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise BadValueError(f'needs a unit: write "{value}GiB" or "{value}MiB"')
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or match[2].upper() not in BYTES:
        raise BadValueError(f'must be a size such as "24GiB" or "800MiB", got {shown(value)}')
    mib = float(match[1]) * BYTES[match[2].upper()] / MIB
    if mib > LARGEST_MIB:
        raise BadValueError(f"must be at most {LARGEST_MIB // MIB:,} TiB, got {shown(value)}")
    return math.ceil(mib)


def signal_name(value: object) -> str:
    """ "TERM" for "TERM" and "SIGTERM"."""
    name = value.upper().removeprefix("SIG") if isinstance(value, str) else ""
    if f"SIG{name}" not in signal.Signals.__members__ or name in {"STOP", "CONT", "CHLD", "CLD"}:
        raise BadValueError(f'must be a signal such as "TERM", "INT" or "USR1", got {shown(value)}')
    return name


def halt(value: object) -> Halt | None:
    """GNU parallel's words: "never", "soon,fail=3", "now,fail=1", "soon,fail=30%"; and "soon,early=3"."""
    if value == "never":
        return None
    match = _HALT.fullmatch(value.replace(" ", "")) if isinstance(value, str) else None
    if match is None:
        raise BadValueError(f"must be {HALTS}, got {shown(value)}")
    when = "soon" if match[1] == "soon" else "now"
    number, early = float(match[3]), match[2] == "early"
    if match[4]:
        if early:
            raise BadValueError(f"needs a number of tasks after early=, got {shown(value)}")
        if not 0 < number <= 100:
            raise BadValueError(f"needs a percentage above 0 and at most 100, got {shown(value)}")
        return Halt(when, fail_percent=number)
    if number < 1 or not number.is_integer():
        raise BadValueError(f"needs a whole number of failures, at least 1, got {shown(value)}")
    return Halt(when, early=int(number)) if early else Halt(when, fail=int(number))


_TIME = r"([01]?\d|2[0-3]):([0-5]\d)"
CLOCK = rf"^(\d{{4}}-\d\d-\d\d )?{_TIME}$"
MOMENT = rf"^\d{{4}}-\d\d-\d\d {_TIME}$"
HOURS = rf"^{_TIME}-{_TIME}$"


def clock(value: object) -> Clock:
    """ "22:00", or "2026-12-01 22:00"."""
    match = re.fullmatch(CLOCK, value) if isinstance(value, str) else None
    if match is None:
        example = '"22:00" or "2026-12-01 22:00"'
        raise BadValueError(f"must be a time of day, or a date and a time, such as {example}, got {shown(value)}")
    try:
        day = None if match[1] is None else date.fromisoformat(match[1].strip())
    except ValueError:
        raise BadValueError(f"has a date that no calendar has, got {shown(value)}") from None
    return Clock(int(match[2]), int(match[3]), None if day is None else (day.year, day.month, day.day))


def moment(value: object) -> Clock:
    """ "2026-12-01 22:00"."""
    found = clock(value)
    if found.day is None:
        raise BadValueError(f'must be a date and a time such as "2026-12-01 22:00", got {shown(value)}')
    return found


def hours(value: object) -> Hours:
    """ "20:00-08:00"."""
    match = re.fullmatch(HOURS, value.replace(" ", "")) if isinstance(value, str) else None
    if match is None:
        raise BadValueError(f'must be two times of day, such as "20:00-08:00", got {shown(value)}')
    first, last = (Clock(int(match[at]), int(match[at + 1])) for at in (1, 3))
    if first == last:
        raise BadValueError(f"needs two different times, got {shown(value)}")
    return Hours(first, last)


def gpu_ids(value: object) -> tuple[str, ...]:
    """GPU ids in the order given: [7, 6], ["GPU-5f2a…"], "0-3,6". A double one is an error."""
    if isinstance(value, str):
        found = [gpu for part in value.split(",") for gpu in _gpu_range(part.strip())]
    elif is_list(value):
        found = [_gpu_id(item) for item in value]
    else:
        raise BadValueError(f'must be a list of GPU ids such as [0, 1] or "0-3,6", got {shown(value)}')
    refuse_doubles(found)
    return tuple(found)


def refuse_doubles(ids: Sequence[str]) -> None:
    """Raises BadValueError naming the first id that is there twice."""
    double = next((gpu for position, gpu in enumerate(ids) if gpu in ids[:position]), None)
    if double is not None:
        raise BadValueError(f"names GPU {double} twice")


def _gpu_id(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return str(value)
    if isinstance(value, str) and (value.isdecimal() or _UUID.fullmatch(value)):
        return value
    if isinstance(value, str) and value.startswith("sim:"):
        raise BadValueError(f'has {shown(value)}; simulated GPUs are asked for without a list: gpus = "sim:4"')
    raise BadValueError(f'has {shown(value)}, which is no GPU id: a number from 0, or a UUID such as "GPU-5f2a…"')


def _gpu_range(part: str) -> Iterable[str]:
    match = _RANGE.fullmatch(part)
    if match is None:
        return [_gpu_id(part)]
    first, last = int(match[1]), int(match[2])
    if first > last:
        raise BadValueError(f"has the range {part}: the smaller number goes first")
    if last - first >= MOST_GPUS:
        raise BadValueError(f"has the range {part}: more than {MOST_GPUS} GPUs are refused")
    return [str(gpu) for gpu in range(first, last + 1)]


def deck_gpus(value: object) -> str | int | tuple[str, ...]:
    """ "all", "none", N for "sim:N", else ids in order of preference."""
    if value in ("all", "none"):
        return str(value)
    if isinstance(value, str) and value.startswith("sim"):
        number = value.removeprefix("sim:")
        if not number.isdecimal() or not 1 <= int(number) <= MOST_GPUS:
            raise BadValueError(f'must be "sim:N" with N from 1 to 1024 for simulated GPUs, got {shown(value)}')
        return int(number)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        first = "none" if value == 0 else "0" if value == 1 else f"0-{value - 1}"
        many = f"{value} GPU{'s' * (value != 1)}"
        raise BadValueError(f'= {value} may mean {many} or GPU {value}: write "{first}" or "{value}"')
    if value in ("", [], ()):
        raise BadValueError('names no GPU: write "none" for CPU only')
    return gpu_ids(value)


def slots_per_gpu(value: object) -> int | str | dict[str, int]:
    """A number for every GPU, "auto", or a number by GPU ids: { "0-3" = 2, "4" = 1 }."""
    if value == "auto":
        return "auto"
    if is_table(value):
        found = [(gpu, _slot_count(slots)) for ids, slots in value.items() for gpu in gpu_ids(ids)]
        if not found:
            raise BadValueError("must not be empty")
        refuse_doubles([gpu for gpu, _ in found])
        return dict(found)
    return _slot_count(value)


def _slot_count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadValueError(f'must be a whole number, "auto" or a table such as {{ "0-3" = 2 }}, got {shown(value)}')
    if value < 1:
        raise BadValueError(f"must be at least 1, got {value}")
    return value


def metric_way(value: object) -> str:
    """ "val_loss:min": a metric, and which of its values."""
    name, _, way = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if not name or way not in ("min", "max"):
        raise BadValueError(f'must be NAME:min or NAME:max such as "val_loss:min", got {shown(value)}')
    return f"{name}:{way}"
