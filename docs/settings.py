"""Keys and settings of the screen, as its own tables have them."""

from __future__ import annotations

import ast
from dataclasses import fields, is_dataclass
from pathlib import Path

from gpudeck.tui import settings as config
from gpudeck.tui.acting.actions import ACTIONS, Action, on, shown
from gpudeck.tui.screens.help import PLACES

_SOURCE = Path(config.__file__)


def keys() -> str:
    """A table for each place, in the order of the help."""
    told = {action.where for action in ACTIONS} - set(PLACES)
    if told:
        raise ValueError(f"the help leaves out {sorted(told)}")
    return "\n\n".join(
        "\n".join([f"## {title}", "", "| key | id | |", "|---|---|---|", *(_row(action) for action in on(place))])
        for place, title in PLACES.items()
    )


def _row(action: Action) -> str:
    pressed = " ".join(f"`{shown(key)}`" for key in action.keys)
    return f"| {pressed} | `{action.id}` | {action.tip} |"


def settings() -> str:
    """The keys of config.toml with their defaults. Raises ValueError for one that its source does not explain."""
    rows = ["| key | default | meaning |", "|---|---|---|"]
    for cls, above in ((config.Config, ""), (config.Thresholds, "thresholds.")):
        meanings = _meanings(cls.__name__)
        default = cls()
        for field in fields(cls):
            value = getattr(default, field.name)
            if field.name == "problems" or is_dataclass(value):
                continue
            name = field.name.removesuffix("_s") if cls is config.Config else field.name
            rows.append(f"| `{above}{name}` | {_written(value)} | {meanings[field.name]} |")
    return "\n".join(rows)


def _meanings(cls: str) -> dict[str, str]:
    """What stands below each field of a class."""
    node = next(
        node for node in ast.parse(_SOURCE.read_text()).body if isinstance(node, ast.ClassDef) and node.name == cls
    )
    found: dict[str, str] = {}
    for before, after in zip(node.body, node.body[1:], strict=False):
        if isinstance(before, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[ast.unparse(before.target)] = " ".join(str(after.value.value).split())
    return found


def _written(value: object) -> str:
    if isinstance(value, dict):
        return "`{}`"
    return "`[]`" if value == () else f"`{value!r}`".replace("'", '"')
