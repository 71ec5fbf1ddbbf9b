"""The user's config.toml: settings, keys and themes."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, cast

from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

from .acting.actions import ACTIONS, BY_ID, SHOWN, Action

RESERVED = frozenset({"ctrl+a", "ctrl+b", "ctrl+s"})
"""Belong to screen, tmux and the terminal's flow control."""
_NAMED = frozenset({
    "up", "down", "left", "right", "home", "end", "pageup", "pagedown", "insert", "delete", "escape", "enter", "tab",
    "space", "backspace", *(f"f{number}" for number in range(1, 25)),
})  # fmt: skip
_WRITTEN = {written: key for key, written in SHOWN.items() if len(written) > 1 or not written.isascii()}
_WITH = ("ctrl+", "shift+", "alt+")


def keys_of(given: Mapping[str, object], problems: list[str]) -> dict[str, str]:
    """Keys as Textual has them, several separated by commas. What cannot be is left out and told in *problems*."""
    chosen: dict[str, tuple[str, ...]] = {}
    for action, keys in given.items():
        try:
            chosen[action] = _keys(action, keys)
        except ValueError as error:
            problems.append(f"keys.{action}: {error}")
    for action, other, key in iter(lambda: next(_twice(chosen), None), None):
        problems.append(f"keys.{action}: {key} is a key of {other}: give that another one, too")
        del chosen[action]
    return {action: ",".join(keys) for action, keys in chosen.items()}


def _keys(action: str, given: object) -> tuple[str, ...]:
    """Raises ValueError."""
    if action not in BY_ID:
        raise ValueError("no such action; `?` in the screen and docs/keys.md list them")
    written = given if isinstance(given, list) else given.split(",") if isinstance(given, str) else []  # pyright: ignore[reportUnknownVariableType]
    keys = tuple(_key(each) for each in written)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if not keys:
        raise ValueError('expected a key such as "r" or "ctrl+r"')
    return keys


def _key(written: object) -> str:
    """ "?", "^r" and "pgdn" mean "question_mark", "ctrl+r" and "pagedown". Raises ValueError."""
    text = written.strip() if isinstance(written, str) else ""
    text = f"ctrl+{text[1:]}" if len(text) > 1 and text.startswith("^") else text
    modifiers, plus, name = text.rpartition("+")
    text = modifiers + plus + _WRITTEN.get(name, name)
    key = _named(text) if len(text) == 1 else text
    base = key
    for modifier in _WITH:
        base = base.removeprefix(modifier)
    names = {_named(chr(code)) for code in range(33, 127)}
    if base not in names | _NAMED:
        raise ValueError(f'{text or written!r} is no key: expected one such as "r", "R", "f7", "ctrl+r" or "slash"')
    if key in RESERVED:
        raise ValueError(f"{key} belongs to tmux, screen or the terminal")
    return key


def _named(character: str) -> str:
    """Textual's name of its key: letters and digits as they are, "#" is "number_sign"."""
    from textual.keys import KEY_NAME_REPLACEMENTS  # slow to load, and seldom needed

    if character.isalnum():
        return character
    name = unicodedata.name(character, "").lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name)


def _twice(chosen: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str, str]]:
    """A chosen action, another one that goes by the same key at the same place, and that key."""
    for action in reversed(list(chosen)):
        for other in ACTIONS:
            if other.id != action and _meet(BY_ID[action], other):
                for key in set(chosen[action]) & set(chosen.get(other.id, other.keys)):
                    yield action, other.id, key


def _meet(one: Action, other: Action) -> bool:
    """A key can mean both in one place."""
    places = {one.where, other.where}
    on_pages = "page" in places and not places & {"deck", "tasks", "gpus", "log"}
    return len(places) == 1 or places == {"deck", "tasks"} or on_pages


THEMES = (
    Theme(
        name="gpudeck",
        primary="#6fb7d6",
        secondary="#9aa7b5",
        accent="#76b900",
        foreground="#d8dee6",
        background="#14181d",
        surface="#1b2027",
        panel="#20262e",
        success="#7bb662",
        warning="#e0a83a",
        error="#e5645e",
        dark=True,
    ),
    Theme(
        name="gpudeck-light",
        primary="#1f6f94",
        secondary="#5b6672",
        accent="#3f7d00",
        foreground="#1d242c",
        background="#fbfbf9",
        surface="#f2f2ee",
        panel="#e8e8e2",
        success="#2f7d32",
        warning="#9a6700",
        error="#b3261e",
        dark=False,
    ),
)


_OWN_COLOURS = "ansi-dark"
"""The terminal's: no background but what stands out has one."""


def begin_with(app: App[Any], name: str) -> None:
    """Offer our themes, and take the one of *name*, if there is such a one."""
    for theme in THEMES:
        app.register_theme(theme)
    if app.no_color:
        name = _OWN_COLOURS
    if name in app.available_themes:
        app.theme = name


class WithoutColours(LineFilter):
    """Leaves greys out, too, which Textual would send; what has a background of its own is reversed."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002
        return [Segment(text, style and _without_colours(style), control) for text, style, control in segments]


_DEFAULT = Style(color="default", bgcolor="default")
_REVERSED = Style(reverse=True)


@lru_cache(1024)
def _without_colours(style: Style) -> Style:
    own = style.bgcolor is not None and not style.bgcolor.is_default
    return style + _DEFAULT + (_REVERSED if own else Style.null())


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


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("expected a table")
    return value  # pyright: ignore[reportUnknownVariableType]


_READERS: Mapping[str, Callable[[Any, list[str]], Any]] = {
    "theme": _theme,
    "refresh": _refresh,
    "columns": _columns,
    "thresholds": _thresholds,
    "keys": lambda value, problems: keys_of(_table(value), problems),
}
_FIELDS = {"refresh": "refresh_s"}
