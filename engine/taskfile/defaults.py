"""What keys mean that a file does not say: read from the table of keys, whose defaults are written as a file would."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

from .schema import DECK, NOTIFY, TASK, Table


def defaults(table: Table) -> Mapping[str, object]:
    """By key, as the engine keeps values; without those that depend on something ("CPU cores")."""
    found: dict[str, object] = {}
    for name, key in table.items():
        try:
            value = tomllib.loads(f"value = {key.default}")["value"]
        except tomllib.TOMLDecodeError:
            continue
        found[name] = key.kind.read(value)
    return found


OF_TASK = defaults(TASK)
OF_DECK = defaults(DECK)
OF_NOTIFY = defaults(NOTIFY)
