"""Replays a made-up run on this terminal: python tests/headless/demo.py [--seconds 20] [--gpus 4] [headless options].

A second of the replay stands for two minutes of the run.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpudeck.engine.core.instant import Instant
from gpudeck.engine.headless import HeadlessOptions, HeadlessOutput
from gpudeck.engine.protocol.messages import (
    Counts,
    DeckOpened,
    GpuLine,
    Message,
    Note,
    RunFinished,
    RunningTask,
    Status,
    SummaryRow,
    TaskEnded,
    TaskSettled,
    TaskStarted,
)

PACE = 120.0
TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "train.py", line 88, in <module>',
    "    main()",
    '  File "train.py", line 61, in main',
    '    raise ValueError(f"bad rate: \x1b[31m{rate}\x1b[0m")',
    "ValueError: bad rate: \x1b[31m1.5\x1b[0m",
)


class SystemClock:
    def now(self) -> Instant:
        return Instant(time.monotonic(), time.time())


@dataclass
class Job:
    task: str
    gpu: int
    began_s: float
    length_s: float


@dataclass
class Replay:
    """A small simulation; yields messages at the pace of the clock."""

    gpus: int
    seconds: float
    tasks: list[str] = field(default_factory=list)
    running: dict[int, Job] = field(default_factory=dict)
    rows: list[SummaryRow] = field(default_factory=list)

    def messages(self, period_s: float) -> Iterator[Message]:
        random.seed(1)
        self.tasks = [
            f"train-{kind}-{rate}-s{seed}" for kind in ("sym", "asym") for rate in (0.125, 0.5) for seed in range(12)
        ]
        self.total = len(self.tasks) + 1
        names = tuple(f"{gpu}  NVIDIA A40  44.5 GiB  GPU-5f2a{gpu:04}" for gpu in range(self.gpus))
        start = time.monotonic()
        yield DeckOpened(
            "caltech101-noise", "tasks.toml", 3, False, names, self.gpus, False, Counts(self.total, cached=1), "logs",
            ("train-old: output older than its start",), time.time(),
        )  # fmt: skip
        yield TaskSettled("prepare-data", "cached", "journal", 0.1, time.time())
        self.rows.append(SummaryRow("prepare-data", "cached", 0, (), None, "", ""))
        said = start
        while (spent := time.monotonic() - start) < self.seconds:
            now_s = spent * PACE
            yield from self._ends(now_s)
            yield from self._starts(now_s)
            if period_s and time.monotonic() - said >= period_s:
                said = time.monotonic()
                yield self.status(now_s)
            time.sleep(0.02)
        yield Note("warning", "SIGINT: tasks are being stopped", self.seconds * PACE, time.time())
        yield self._finished()

    def _starts(self, now_s: float) -> Iterator[Message]:
        for gpu in range(self.gpus - 1):
            if gpu not in self.running and self.tasks:
                job = Job(self.tasks.pop(0), gpu, now_s, random.uniform(200, 900))
                self.running[gpu] = job
                log = f"logs/{job.task}/attempt-1.log"
                yield TaskStarted(job.task, 1, (gpu,), 4711, log, now_s, time.time())

    def _ends(self, now_s: float) -> Iterator[Message]:
        for job in [job for job in self.running.values() if now_s - job.began_s > job.length_s]:
            del self.running[job.gpu]
            failed = random.random() < 0.4
            reason, digest = ("exit 1: ValueError: bad rate: 1.5", TRACEBACK) if failed else ("", ())
            log, err = f"logs/{job.task}/attempt-1.log", f"logs/{job.task}/attempt-1.err"
            state = "failed" if failed else "succeeded"
            self.rows.append(SummaryRow(job.task, state, 1, (job.gpu,), job.length_s, reason, log, digest))
            yield TaskEnded(
                job.task, 1, (job.gpu,), "failed" if failed else "ok", reason, int(failed), state, 0.0, job.length_s,
                42188, 87.4, log, err, digest, now_s, time.time(),
            )  # fmt: skip

    def _counts(self) -> Counts:
        states = [row.state for row in self.rows]
        return Counts(
            self.total,
            queued=len(self.tasks),
            running=len(self.running),
            succeeded=states.count("succeeded"),
            cached=1,
            failed=states.count("failed"),
        )

    def status(self, now_s: float) -> Status:
        running = tuple(
            RunningTask(job.task, 1, (job.gpu,), now_s - job.began_s, 550.0, "") for job in self.running.values()
        )
        gpus = tuple(
            GpuLine(gpu, (self.running[gpu].task,), random.randint(70, 99), 42188, 45568)
            if gpu in self.running
            else GpuLine(gpu, (), 3, 31744, 45568, "alice uses it (31 GiB, pid 4711)")
            for gpu in range(self.gpus)
        )
        why = (f"{len(self.tasks)} tasks: every GPU is busy",)
        return Status(self._counts(), running, gpus, why, len(self.tasks) * 180.0, now_s, time.time())

    def _finished(self) -> RunFinished:
        wall_s = self.seconds * PACE
        rows = self.rows + [SummaryRow(task, "queued", 0, (), None, "", "") for task in self.tasks]
        busy = dict.fromkeys(range(self.gpus - 1), wall_s * 0.97)
        task_s = sum(row.duration_s or 0 for row in rows)
        why = "130: stopped by SIGINT"
        return RunFinished(130, self._counts(), tuple(rows), wall_s, task_s, busy, False, why, time.time())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--check-interval", type=float, default=240)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--junit")
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("--no-color", dest="color", action="store_false")
    parser.add_argument("--deck-log", default="/dev/null")
    given = parser.parse_args()
    options = HeadlessOptions(
        given.check_interval, given.json, given.junit, given.verbose, given.quiet, given.color
    )  # fmt: skip
    with HeadlessOutput(options, sys.stdout, given.deck_log, os.environ, SystemClock()) as output:
        period_s = output.status_period_s
        for message in Replay(given.gpus, given.seconds).messages(period_s if period_s < 10 else period_s / PACE):
            output.show(message)


if __name__ == "__main__":
    main()
