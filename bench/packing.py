"""Runs whose memory is known from earlier attempts, on two cards of 80 GiB: how long all of them take, against the best
packing there is.

Eight runs against the best of all orders, on the engine's simulated clock; sixty against a bound that no packing beats;
and sixteen real processes on `sim:2`, learned from a first run of the same deck, against that clock.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from typing import NamedTuple

from common import Report, folder_on, headless, options, tmpfs, write_deck

from gpudeck.engine.core.build import build
from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.simulate import simulate
from gpudeck.engine.core.spec import DeckFile, DeckSettings, Resources, TaskSpec, Work

CARDS = 2
CARD_MIB = 80 * 1024
Held = tuple[tuple[float, int], ...]


class Run(NamedTuple):
    seconds: float
    mib: int


def drawn(count: int, seed: int, unit_s: float = 1.0) -> list[Run]:
    dice = random.Random(seed)
    return [Run(dice.uniform(0.5, 3.0) * unit_s, int(dice.uniform(4, 48) * 1024)) for _ in range(count)]


def ours_s(runs: Sequence[Run]) -> float:
    """The engine's own decisions, its margins and its order."""
    names = [f"run-{index}" for index in range(len(runs))]
    resources = Resources(gpu_memory_mib="auto")
    tasks = [TaskSpec(name, name, at, Work(name), name, resources) for at, name in enumerate(names)]
    settings = DeckSettings(order="longest", slots_per_gpu="auto")
    gpus = [Gpu(f"GPU-{index}", index, index, slots="auto", total_mib=CARD_MIB) for index in range(CARDS)]
    deck = build(DeckFile("tasks.toml", "tasks", settings, tuple(tasks)), gpus=gpus, cores=64)
    lengths = dict(zip(names, runs, strict=True))
    for name, run in lengths.items():
        deck.learned.success(name, run.seconds)
        deck.learned.peak(name, run.mib)
    planned = simulate(deck, lambda task: lengths[task.name].seconds)
    if len(planned) != len(runs):
        raise RuntimeError(f"{len(planned)} of {len(runs)} runs were placed")
    return max(item.end_s for item in planned)


def best_s(runs: Sequence[Run], known_s: float) -> float:
    """The best that is possible, if it beats *known_s*: every order and every card, as far as that may bring more."""
    return _best_after(tuple(runs), ((),) * CARDS, 0.0, 0.0, known_s)


def _best_after(left: tuple[Run, ...], cards: tuple[Held, ...], now: float, over: float, best: float) -> float:
    """*cards*: ends and memory of what was placed on each; what is left starts at *now* at the earliest."""
    if not left:
        return min(best, over)
    waits = sum(run.seconds * run.mib for run in left)
    held = sum(max(0.0, end - now) * mib for card in cards for end, mib in card)
    if now + (waits + held) / (CARDS * CARD_MIB) >= best:
        return best
    for place, run in enumerate(left):
        for at, card in enumerate(cards):
            start = _fits_at(card, run, now)
            end = start + run.seconds
            if end < best and cards.index(card) == at:
                after = (*cards[:at], (*card, (end, run.mib)), *cards[at + 1 :])
                best = _best_after(left[:place] + left[place + 1 :], after, start, max(over, end), best)
    return best


def _fits_at(card: Held, run: Run, now: float) -> float:
    moments = [now, *sorted(end for end, _ in card if end > now)]
    return next(at for at in moments if sum(mib for end, mib in card if end > at) + run.mib <= CARD_MIB)


def bound_s(runs: Sequence[Run]) -> float:
    """No packing is faster: memory times time fits on the cards, and of runs above half a card each has one at most."""
    area = sum(run.seconds * run.mib for run in runs) / (CARDS * CARD_MIB)
    large = sum(run.seconds for run in runs if run.mib * 2 > CARD_MIB) / CARDS
    return max(area, large, max(run.seconds for run in runs))


def real_s(runs: Sequence[Run]) -> float:
    """Sleeps on `sim:2`, the second run of the deck: from the first start to the last end."""
    cases = [{"s": f"{run.seconds:.2f}", "mib": run.mib, "n": at} for at, run in enumerate(runs)]
    text = (
        '[deck]\ngpus = "sim:2"\nslots_per_gpu = "auto"\norder = "longest"\n'
        '[[task]]\nname = "run-{n}"\ncommand = "sleep {s} # {n}"\ngpu_memory = "auto"\n'
        'env.GPUDECK_SIM_MIB = "{mib}"\n'
    )
    rows = "".join(f'[[task.matrix.case]]\ns = "{case["s"]}"\nmib = {case["mib"]}\nn = {case["n"]}\n' for case in cases)
    with folder_on(tmpfs() or "/tmp") as folder:
        write_deck(folder, text + rows)
        headless(folder, "--json")
        lines = headless(folder, "--json", "--no-skip-existing").splitlines()
    events = [json.loads(line) for line in lines]
    starts = [event["unix_s"] for event in events if event["event"] == "task_started"]
    ends = [event["unix_s"] for event in events if event["event"] == "task_ended"]
    return max(ends) - min(starts)


def main() -> int:
    given = options(__doc__)
    report = Report(given)
    seeds = range(1, 1 + given.rounds(10))
    small = [drawn(8, seed) for seed in seeds]
    ours = [ours_s(runs) for runs in small]
    best = [best_s(runs, known_s) for runs, known_s in zip(small, ours, strict=True)]
    report.row("8 runs, 2 cards: best possible", ours, best, "s", "<= 1.15 x")
    large = [drawn(60, seed) for seed in seeds]
    report.row("60 runs, 2 cards: bound", [*map(ours_s, large)], [*map(bound_s, large)], "s", "<= 1.15 x")
    real = drawn(16, 1, unit_s=2.0)
    report.row("16 processes on sim:2: simulated clock", real_s(real), ours_s(real), "s", "<= 1.15 x")
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
