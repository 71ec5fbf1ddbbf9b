"""What a user does, one act after another, chosen by dice alone: the same seed gives the same acts on every box.

An act is a line of words, `press r` or `command cancel t3 -y`; acts.py does it. After `& let t1` the next act follows
at once, after others everything first comes to rest. No act needs another one to have been done before it, so that any
of them can be left out when a failure is looked into.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from .lots import FIRST, MAKERS, RELOAD, extra
from .taskfile import NAMES

Act = tuple[str, ...]

_HASTE = 0.4
"""How often the user does not wait to see what comes of an act."""


def plan(seed: int, count: int) -> list[Act]:
    """So many acts, after those that make the first task file and open the screen."""
    dice = random.Random(seed)
    begin = [f"add {name} {dice.choice(FIRST)}{extra(dice, name)}" for name in NAMES[: dice.randint(3, 6)]]
    begin.append(f"reload {dice.choice(RELOAD)}")
    begin.append(dice.choice(("open", "open", "command start", "headless")))
    weights, makers = zip(*MAKERS, strict=True)
    chosen = dice.choices(makers, weights, k=count)
    lines = [make(dice) for make in chosen]
    return read("; ".join([*begin, *(f"& {line}" if dice.random() < _HASTE else line for line in lines)]))


def read(text: str) -> list[Act]:
    """Acts as `said` writes them."""
    return [tuple(line.split()) for line in text.split(";") if line.strip()]


def said(acts: Sequence[Act]) -> str:
    return "; ".join(" ".join(act) for act in acts)
