"""What the core costs: one simulated run of a large deck, step by step. Budget: p99 <= 150 us; the longest step, which
opens a round, <= 100 ms with 10,000 tasks and <= 1 s with 100,000."""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Callable
from heapq import heappop, heappush

from gpudeck.engine.core.build import build
from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.effects import CheckDone, Launch
from gpudeck.engine.core.events import RunStarted
from gpudeck.engine.core.inputs import DoneChecked, Input, LeaderExited, Spawned, TreeGone
from gpudeck.engine.core.spec import DeckFile, DeckSettings, Policy, Resources, TaskSpec, Work
from gpudeck.engine.core.step import Core

COLLECT_EVERY = 1_000
"""Steps between two collections, which the loop makes in idle moments and which are not counted here."""
P99_US, MAX_US_A_TASK, MEMORY_MB = 150.0, 10.0, 500.0


def one_entry(count: int, round_of: Callable[[int], int] = lambda _: 0) -> DeckFile:
    resources, policy, work = Resources(), Policy(), Work(("python", "train.py"))
    tasks = tuple(
        TaskSpec(f"train-{index}", "train-{seed}", index, work, f"{index:032x}", resources, policy,
                 round=round_of(index))
        for index in range(count)
    )  # fmt: skip
    return DeckFile("/tasks.toml", "tasks", DeckSettings(), tasks)


def gpus(count: int = 8) -> list[Gpu]:
    return [Gpu(f"GPU-{index}", index, index, total_mib=80_000) for index in range(count)]


class Run:
    """A whole run against a simulated clock; every step is timed."""

    def __init__(self, file: DeckFile) -> None:
        began = time.thread_time()
        self.deck = build(file, gpus=gpus(), cores=64)
        self.build_s = time.thread_time() - began
        self.core = Core(self.deck)
        self.now = 0.0
        self.ends: list[tuple[float, str]] = []
        self.inbox: list[Input] = []
        self.took_us: list[float] = []
        self.begin_us = 0.0

    def to_its_end(self) -> None:
        gc.collect()
        gc.freeze()
        gc.disable()
        began = time.thread_time()
        step = self.core.begin(RunStarted(1, "seed", 0.0, 0.0))
        self.begin_us = (time.thread_time() - began) * 1e6
        self._effects(step.effects)
        while not self.deck.run.ended:
            due = self.deck.next_deadline()
            if not self.inbox and (due is None or due > self.now):
                self.now, token = heappop(self.ends)
                self.inbox += [LeaderExited(token, 0, self.now), TreeGone(token, self.now)]
            inputs, self.inbox = self.inbox, []
            began = time.thread_time()
            step = self.core.step(inputs, at=self.now, wall=self.now)
            self.took_us.append((time.thread_time() - began) * 1e6)
            self._effects(step.effects)
            if len(self.took_us) % COLLECT_EVERY == 0:
                gc.collect(1)

    def _effects(self, effects: list[object]) -> None:
        for effect in effects:
            match effect:
                case Launch():
                    heappush(self.ends, (self.now + 60.0 + len(self.took_us) % 7, effect.token))
                    self.inbox.append(Spawned(effect.token, 1, 1))
                case CheckDone():
                    self.inbox += [DoneChecked(name, False, False) for name in effect.tasks]
                case _:
                    pass


def report(label: str, file: DeckFile) -> bool:
    run = Run(file)
    run.to_its_end()
    took = sorted(run.took_us)
    p50, p99, most = took[len(took) // 2], took[len(took) * 99 // 100], took[-1]
    slow = sum(us > 1_000 for us in took)
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{label}: build {run.build_s:.2f} s, begin {run.begin_us / 1000:.1f} ms, {len(took)} steps, "
        f"p50 {p50:.0f} us, p99 {p99:.0f} us, max {most / 1000:.2f} ms, {slow} above 1 ms, memory {memory_mb:.0f} MB"
    )
    return p99 <= P99_US and most <= MAX_US_A_TASK * len(file.tasks) and memory_mb <= MEMORY_MB


def main() -> int:
    fine = True
    for count in (10_000, 100_000):
        fine &= report(f"{count:,} tasks in one entry", one_entry(count))
        fine &= report(f"two rounds of {count // 2:,}", one_entry(count, lambda index, half=count // 2: index // half))
    budget = f"p99 {P99_US} us, longest {MAX_US_A_TASK} us for each task, {MEMORY_MB} MB"
    print("within budget" if fine else f"over budget: {budget}")
    return int(not fine and "--strict" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
