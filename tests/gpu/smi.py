"""What nvidia-smi says of cards, and whether gpudeck says the same."""

from __future__ import annotations

import csv
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.gpu.record import NotPossibleError

Row = dict[str, str | None]
"""A card's fields as nvidia-smi calls them, without units; None: it does not tell."""
Query = Callable[[str], tuple[int, str]]
"""Runs nvidia-smi with one option: its exit code, and what it printed."""

REASONS = {
    "hw_thermal_slowdown": "hw thermal", "sw_thermal_slowdown": "thermal", "hw_power_brake_slowdown": "power brake",
    "sw_power_cap": "power", "hw_slowdown": "hw slowdown", "sync_boost": "sync boost",
    "applications_clocks_setting": "set clocks",
}  # fmt: skip
"""Which word of gpudeck stands for which reason of nvidia-smi."""
_NEW, _OLD = "clocks_event_reasons.", "clocks_throttle_reasons."


class Field(NamedTuple):
    ours: str
    theirs: str
    within: float = 0.0
    """What a card may change by between two looks."""


FIELDS = (
    Field("index", "index"), Field("uuid", "uuid"), Field("name", "name"), Field("pci_bus_id", "pci.bus_id"),
    Field("size_mib", "memory.total", 1), Field("total_mib", "memory.total less reserved", 1),
    Field("used_mib", "memory.used", 64), Field("util_percent", "utilization.gpu", 5),
    Field("temperature_c", "temperature.gpu", 2), Field("power_w", "power.draw", 10),
    Field("power_limit_w", "enforced.power.limit", 0.5), Field("sm_clock_mhz", "clocks.sm", 30),
    Field("memory_clock_mhz", "clocks.mem", 30), Field("sm_clock_max_mhz", "clocks.max.sm"),
    Field("memory_clock_max_mhz", "clocks.max.mem"), Field("fan_percent", "fan.speed", 3),
    Field("throttle", "clocks_event_reasons"),
)  # fmt: skip
_MADE = ("total_mib", "throttle")
"""Fields that several of nvidia-smi's make up."""


class Compared(NamedTuple):
    asked: str
    held: bool
    seen: str


def program(env: Mapping[str, str]) -> Query:
    def query(option: str) -> tuple[int, str]:
        command = ["nvidia-smi", option, "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=False)
        except FileNotFoundError:
            raise NotPossibleError("there is no nvidia-smi") from None
        return done.returncode, done.stdout + done.stderr

    return query


def cards(query: Query) -> list[Row]:
    """Every card. A field that this nvidia-smi has under its former name, or not at all, costs no other field."""
    plain = [field.theirs for field in FIELDS if field.ours not in _MADE]
    names = {name: name for name in ("driver_version", "memory.reserved", *plain)}
    names |= {f"{_NEW}{reason}": f"{_NEW}{reason}" for reason in REASONS}
    while True:
        code, text = query(f"--query-gpu={','.join(names.values())}")
        if not code:
            return [dict(zip(names, map(told, cells), strict=True)) for cells in parsed(text)]
        wrong = re.search(r'Field "([^"]+)" is not a valid field', text)
        if wrong is None:
            raise RuntimeError(f"nvidia-smi: exit code {code}: {text.strip()}")
        name = next(name for name, asked in names.items() if asked == wrong[1])
        if wrong[1].startswith(_NEW):
            names[name] = wrong[1].replace(_NEW, _OLD)
        else:
            del names[name]


def processes(query: Query) -> set[tuple[str, int]]:
    """The UUID of the card and the pid of each that computes."""
    code, text = query("--query-compute-apps=gpu_uuid,pid,used_memory")
    return {(cells[0], int(cells[1])) for cells in parsed(text)} if not code else set()


def parsed(text: str) -> list[list[str]]:
    return [cells for cells in csv.reader(text.splitlines(), skipinitialspace=True) if len(cells) > 1]


def told(cell: str) -> str | None:
    """None for "[N/A]", "[Not Supported]", "[Unknown Error]", "[Insufficient Permissions]"."""
    cell = cell.strip()
    return None if cell.startswith("[") or cell in ("", "N/A") else cell


def compare(ours: Mapping[str, Any], looks: Sequence[Row]) -> list[Compared]:
    """Each field of gpudeck's row of a card against what nvidia-smi said before and after."""
    return [_compared(field, ours, [_theirs(field, look) for look in looks]) for field in FIELDS]


def _theirs(field: Field, row: Row) -> str | tuple[str, ...] | None:
    if field.ours == "throttle":
        return reasons(row)
    if field.ours == "total_mib":
        total, reserved = row["memory.total"], row.get("memory.reserved")
        return None if total is None else str(int(total) - int(reserved or 0))
    value = row.get(field.theirs)
    if field.ours == "pci_bus_id" and value:
        return re.sub(r"^0000(?=\w{4}:)", "", value.lower())
    return value


def reasons(row: Row) -> tuple[str, ...] | None:
    """What keeps the clocks down in gpudeck's words and order; the kind of a hardware slowdown stands for it."""
    found = [word for reason, word in REASONS.items() if row.get(f"{_NEW}{reason}") == "Active"]
    if {"hw thermal", "power brake"} & {*found} and "hw slowdown" in found:
        found.remove("hw slowdown")
    return tuple(found) if any(row.get(f"{_NEW}{reason}") for reason in REASONS) else None


def _compared(field: Field, ours: Mapping[str, Any], theirs: Sequence[Any]) -> Compared:
    mine = ours.get(field.ours)
    mine = tuple(mine) if isinstance(mine, list) else mine
    asked = f"{field.ours} is {field.theirs}" + (f" within {field.within:g}" if field.within else "")
    seen = f"gpudeck {_words(mine)}, nvidia-smi {' then '.join(dict.fromkeys(map(_words, theirs)))}"
    if mine is None or None in theirs:
        return Compared(asked, mine is None and None in theirs, seen)
    if isinstance(mine, (int, float)):
        numbers = [float(value) for value in theirs]
        return Compared(asked, min(numbers) - field.within <= mine <= max(numbers) + field.within, seen)
    return Compared(asked, mine in theirs, seen)


def _words(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "nothing"
    return "does not tell" if value is None else str(value)
