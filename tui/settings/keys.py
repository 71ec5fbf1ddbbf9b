"""[keys] of config.toml: keys by the id of an action, checked so that none is lost without a word."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping

from ..acting.actions import ACTIONS, BY_ID, SHOWN, Action

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
