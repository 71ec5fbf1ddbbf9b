"""~/.config/gpudeck/config.toml: how the screen looks and which keys do what. A mistake in it stops nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

from .keys import keys_of


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From where on a reading is shown as a warning."""

    temperature_c: int = 85
    """Of a GPU that does not tell its own slowdown temperature."""
    memory_percent: int = 95
    """Of a GPU's memory, and of the host's."""
    disk_percent: int = 90
    """Of the disk that the logs are on."""


@dataclass(frozen=True, slots=True)
class Config:
    """Settings as they hold: what the file does not say, or says wrongly, is at its default."""

    theme: str = "gpudeck"
    """`gpudeck`, `gpudeck-light`, or one of Textual's."""
    refresh_s: float = 0.1
    """The picture changes at most this often, from 0.05 to 5 seconds."""
    columns: tuple[str, ...] = ()
    """Ids of the table's columns; empty: as many as there is room for."""
    thresholds: Thresholds = Thresholds()
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """Keys by the id of an action, several separated by commas."""
    problems: tuple[str, ...] = ()
    """A line each: what in the file was passed over, and why."""


def path_of(environ: Mapping[str, str]) -> str:
    base = environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "gpudeck", "config.toml")


def load(environ: Mapping[str, str]) -> Config:
    """What is wrong in the file is told in `problems`, the rest of it holds."""
    path = path_of(environ)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return Config()
    except (OSError, ValueError) as error:
        return Config(problems=(f"{path}: {error}",))
    import tomllib  # slow to load, and most users have no such file

    try:
        found = tomllib.loads(content.decode())
    except ValueError as error:
        return Config(problems=(f"{path}: {error}",))
    return parse(found, path)


def parse(found: Mapping[str, Any], path: str) -> Config:
    """From the file's tables."""
    problems: list[str] = []
    config = Config()
    for name, value in found.items():
        reader = _READERS.get(name)
        if reader is None:
            problems.append(f"{path}: {name}: unknown, there are {', '.join(sorted(_READERS))}")
            continue
        try:
            config = replace(config, **{_FIELDS.get(name, name): reader(value, problems)})
        except (TypeError, ValueError) as error:
            problems.append(f"{path}: {name}: {error}")
    return replace(config, problems=tuple(problems))


def _theme(value: Any, _: list[str]) -> str:
    if not isinstance(value, str):
        raise TypeError("expected a theme's name")
    return value


def _refresh(value: Any, _: list[str]) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.05 <= value <= 5:
        raise ValueError("expected seconds, from 0.05 to 5")
    return float(value)


def _columns(value: Any, _: list[str]) -> tuple[str, ...]:
    names = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(name, str) for name in names):
        raise TypeError('expected names of columns: ["name", "time", "gpu"]')
    return tuple(str(name) for name in names)


_HOTTEST_C = 150


def _thresholds(value: Any, problems: list[str]) -> Thresholds:
    known = {each.name for each in fields(Thresholds)}
    chosen: dict[str, int] = {}
    for name, number in _table(value).items():
        if name not in known:
            problems.append(f"thresholds.{name}: unknown, there are {', '.join(sorted(known))}")
        elif isinstance(number, bool) or not isinstance(number, int):
            problems.append(f"thresholds.{name}: expected a whole number")
        elif not 0 <= number <= (_HOTTEST_C if name.endswith("_c") else 100):
            problems.append(f"thresholds.{name}: {number} is never reached, or always")
        else:
            chosen[name] = number
    return replace(Thresholds(), **chosen)


def _keys(value: Any, problems: list[str]) -> dict[str, str]:
    return keys_of(_table(value), problems)


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("expected a table")
    return value  # pyright: ignore[reportUnknownVariableType]


_READERS: Mapping[str, Callable[[Any, list[str]], Any]] = {
    "theme": _theme,
    "refresh": _refresh,
    "columns": _columns,
    "thresholds": _thresholds,
    "keys": _keys,
}
_FIELDS = {"refresh": "refresh_s"}
