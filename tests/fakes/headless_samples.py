"""One message of each kind, to be changed by field, and what the output of a headless run needs around it."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gpudeck.engine.headless.output import HeadlessOptions, HeadlessOutput
from gpudeck.engine.ports import Instant
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
    TaskSubmitted,
)

TRACEBACK = ("Traceback (most recent call last):", '  File "train.py", line 9', "ValueError: bad rate")


def changed(message: Any, changes: dict[str, Any]) -> Any:
    return replace(message, **changes)


def opened(**changes: Any) -> DeckOpened:
    message = DeckOpened(
        deck="noise",
        file="tasks.toml",
        run=3,
        continued=False,
        gpus=("0  NVIDIA A40  44.5 GiB  GPU-5f2a",),
        slots=4,
        simulated=False,
        counts=Counts(total=24, cached=2, queued=22),
        log_dir="logs",
        warnings=(),
        wall=1_700_000_000.0,
    )
    return changed(message, changes)


def submitted(**changes: Any) -> TaskSubmitted:
    return changed(TaskSubmitted("train-sym-0.375", 1, "1234", 1.0, 1_700_000_001.0), changes)


def started(**changes: Any) -> TaskStarted:
    message = TaskStarted("train-sym-0.375", 1, (2,), 4711, "logs/train-sym-0.375/attempt-1.log", 1.0, 1_700_000_001.0)
    return changed(message, changes)


def ended(**changes: Any) -> TaskEnded:
    message = TaskEnded(
        task="train-sym-0.375",
        attempt=1,
        gpus=(2,),
        outcome="ok",
        reason="",
        exit_code=0,
        next="succeeded",
        retry_in_s=0.0,
        duration_s=5025.0,
        peak_mib=42189,
        mean_util_percent=87.2,
        log="logs/train-sym-0.375/attempt-1.log",
        err="logs/train-sym-0.375/attempt-1.err",
        digest=(),
        at=5026.0,
        wall=1_700_005_026.0,
    )
    return changed(message, changes)


def failed(**changes: Any) -> TaskEnded:
    failure = {"outcome": "failed", "reason": "exit 1: ValueError: bad rate", "exit_code": 1, "next": "failed"}
    return ended(**{**failure, "digest": TRACEBACK, "duration_s": 2.5, "at": 3.5, **changes})


def settled(**changes: Any) -> TaskSettled:
    return changed(TaskSettled("train-b", "cached", "journal", 0.0, 1_700_000_000.0), changes)


def note(**changes: Any) -> Note:
    return changed(Note("warning", "alice joined GPU 3, 31 GiB", 62.0, 1_700_000_062.0), changes)


def status(**changes: Any) -> Status:
    message = Status(
        counts=Counts(total=40, queued=20, waiting=3, running=4, succeeded=11, cached=1, failed=1),
        running=tuple(
            RunningTask(f"train-{gpu}", 1, (gpu,), 600.0, 1200.0, f"logs/train-{gpu}/attempt-1.log") for gpu in range(4)
        ),
        gpus=tuple(GpuLine(gpu, (f"train-{gpu}",), 87, 42189, 45568) for gpu in range(4)),
        waiting_why=("20 tasks: every GPU is busy",),
        eta_s=4200.0,
        at=330.0,
        wall=1_700_000_330.0,
    )
    return changed(message, changes)


def row(**changes: Any) -> SummaryRow:
    return changed(SummaryRow("train-a", "succeeded", 1, (2,), 5025.0, "", "logs/train-a/attempt-1.log"), changes)


def failed_row(**changes: Any) -> SummaryRow:
    failure = {"task": "train-b", "state": "failed", "attempts": 2, "gpus": (1,), "duration_s": 2.5}
    why = {"reason": "exit 1: ValueError: bad rate", "log": "logs/train-b/attempt-2.err", "digest": TRACEBACK}
    return row(**{**failure, **why, **changes})


def finished(**changes: Any) -> RunFinished:
    message = RunFinished(
        exit_code=1,
        counts=Counts(total=2, succeeded=1, failed=1),
        rows=(row(), failed_row()),
        wall_s=3600.0,
        task_s=13320.0,
        gpu_busy_s={0: 3492.0, 1: 1800.0},
        wall=1_700_003_600.0,
    )
    return changed(message, changes)


def every_kind() -> list[Message]:
    return [opened(), submitted(), started(), ended(), failed(), settled(), note(), status(), finished()]


class ManualClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def now(self) -> Instant:
        return Instant(self.now_s, 1_700_000_000.0 + self.now_s)


def shown(
    messages: list[Message], log: str = "/dev/null", options: HeadlessOptions | None = None, **environ: str
) -> str:
    """What a stream that is no terminal gets of these messages."""
    stream = io.StringIO()
    with HeadlessOutput(options or HeadlessOptions(), stream, log, environ, ManualClock()) as output:
        for message in messages:
            output.show(message)
    return stream.getvalue()


def wait_until(condition: Callable[[], bool], deadline_s: float = 10.0) -> None:
    end_s = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end_s, "the condition did not come true in time"
        time.sleep(0.005)
