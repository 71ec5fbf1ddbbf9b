"""What `[distributed]`, and a task's own `distributed` over it, tell the task: GPUDECK_DIST_* in its environment.

They are variables like those of `env`, so they belong to the fingerprint as these do: another strategy or precision is
other work, unless fingerprint_ignore names them.
"""

from __future__ import annotations

from collections.abc import Mapping

from .moving import Moving, compiled
from .problems import BadValueError, did_you_mean
from .said import Said
from .schema import DISTRIBUTED
from .scopes import Scopes
from .values import is_table

PREFIX = "GPUDECK_DIST_"
_TEXT = frozenset({"strategy", "backend", "mixed_precision"})
"""Keys whose variable has the value as it is written, so that it may differ from task to task."""


def variables_of(said: Said, scopes: Scopes) -> Mapping[str, str]:
    """By name; placeholders of the matrix are still in them. What is wrong with a key is among the problems."""
    own = said.all.get("distributed", {})
    if not is_table(own):
        said.note(BadValueError("must be a table"), "distributed")
        return {}
    shared = said.context.layers.distributed
    found: dict[str, str] = {}
    for key, value in {**shared, **own}.items():
        if key not in DISTRIBUTED:
            if key in own:
                words = f'has the unknown key "{key}"'
                hint = did_you_mean(key, list(DISTRIBUTED))
                said.note(BadValueError(f"{words}: {hint}" if hint else words), "distributed")
            continue
        try:
            found[f"{PREFIX}{key.upper()}"] = _variable(key, value, scopes)
        except BadValueError as error:
            if key in own or _is_filled(value):
                said.note(BadValueError(error.words, key, *error.inside), "distributed")
    return found


def _variable(key: str, value: object, scopes: Scopes) -> str:
    kind = DISTRIBUTED[key].kind
    made = compiled(value, scopes.other, textual=False)
    if not isinstance(made, Moving):
        return _text(kind.read(made))
    if key not in _TEXT or not isinstance(value, str):
        raise BadValueError("must be the same for all tasks of the entry")
    if scopes.shards is None:
        for texts, values in zip(scopes.table.texts, scopes.table.values, strict=True):
            kind.read(made.make(texts, values))
    return value


def _is_filled(value: object) -> bool:
    """Values without placeholders are checked once, where [distributed] stands."""
    return isinstance(value, str) and "{" in value


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
