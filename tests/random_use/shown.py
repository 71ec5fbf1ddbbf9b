"""What must hold of what commands say: it agrees with itself, and with the codes that tasks wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .deck import UsedDeck
from .told import HOLDING, WAITING, Told

_COUNTED = {"starting": "running", "stopping": "running", "closing": "running"}


def complaints(deck: UsedDeck, said: Told) -> list[str]:
    return [*_reasons(said), *_slots(deck, said), *_counts(said), *_codes_told(deck, said)]


def _reasons(said: Told) -> Iterator[str]:
    """What waits has a reason."""
    for name, row in said.rows.items():
        if row["state"] in WAITING and not said.obstacles.get(name):
            yield f"{name} is {row['state']}, and nothing says why"


def _slots(deck: UsedDeck, said: Told) -> Iterator[str]:
    """GPUs and rows agree on who is where, and each slot has one holder."""
    if not said.status["engine"]:
        return
    here = {gpu["index"] for gpu in said.status["gpus"]}  # not those that have left the deck and are still in use
    holding = [(name, row) for name, row in said.rows.items() if row["state"] in HOLDING]
    by_rows = {(gpu, name) for name, row in holding for gpu in here.intersection(row["gpus"])}
    by_gpus = {(gpu["index"], name) for gpu in said.status["gpus"] for name in gpu["tasks"]}
    for index, name in sorted(by_rows ^ by_gpus):
        yield f"GPU {index} and the row of {name} do not agree"
    for gpu in said.status["gpus"]:
        if len(gpu["tasks"]) > 1 and not deck.shared:
            yield f"GPU {gpu['index']} has {gpu['tasks']}"


def _counts(said: Told) -> Iterator[str]:
    """What runs counts, also where the run leaves it out or the file no longer has it."""
    rows = [row for row in said.rows.values() if row["state"] in HOLDING or not (row["left_out"] or row["gone"])]
    counted = Counter(_COUNTED.get(row["state"], row["state"]) for row in rows)
    for state, count in said.status["counts"].items():
        if state != "total" and count != counted[state]:
            yield f"status counts {count} {state}, ls shows {counted[state]}"


def _codes_told(deck: UsedDeck, said: Told) -> Iterator[str]:
    codes = deck.ledger.codes()
    for name, row in said.rows.items():
        code = codes.get((name, row["attempt"]))
        over = row["state"] not in (*HOLDING, "queued", "waiting", "blocked")
        if over and row["exit_code"] is not None and code is not None and row["exit_code"] != code:
            yield f"{name} attempt {row['attempt']} ended with {code}, ls says {row['exit_code']}"
