"""attempt-N.json is, byte for byte, what others read: beside these tests lies how it has been."""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpudeck.engine.core.events import AttemptEnded, AttemptStarting
from gpudeck.engine.core.readings import GpuReading
from gpudeck.engine.core.spec import Extras, Work
from tests.fakes.loop_rig import LoopRig, looped, task

SAMPLES = Path(__file__).parent / "samples"


@pytest.fixture(autouse=True)
def _in_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def record(rig: LoopRig, name: str) -> str:
    """Of a task's first attempt, without what is other each time."""
    assert rig.writer.flush()
    path = Path(rig.attempts.running.paths(name, 1).json)
    text = path.read_text()
    for value, word in (
        (str(path.parents[2]), "FOLDER"),
        (rig.token(name), "TOKEN"),
        (f'"{socket.gethostname()}"', '"HOST"'),
        (sys.executable, "PYTHON"),
    ):
        text = text.replace(value, word)
    return re.sub(r'"inode": \d+', '"inode": 0', text)


def sample(name: str) -> str:
    return (SAMPLES / f"{name}.json").read_text()


async def begun(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()


async def ended(rig: LoopRig, code: int) -> None:
    rig.launcher.end(rig.token("a"), code)
    await rig.settle()
    rig.attempts.publish(rig.published)
    ((start,), (end,)) = map(rig.facts, (AttemptStarting, AttemptEnded))
    rig.attempts.ends.ended(end, start)


SECRETS = Work(("train", "--api-key", "sesame", "--lr=0.1"), (("HF_TOKEN", "sesame"), ("LR", "0.1"), ("GONE", None)))


@looped(replace(task("a"), cwd="/", work=SECRETS))
async def test_the_record_of_an_attempt_that_runs_and_has_ended(rig: LoopRig) -> None:
    await begun(rig)
    assert record(rig, "a") == sample("runs")
    for at in (1001.0, 1003.0):
        rig.attempts.histories.sampled([GpuReading("GPU-0", at, util_percent=50, power_w=360.0)])
    await rig.later(5.0)
    with open(rig.launcher.orders[-1].stderr, "a") as file:
        file.write("Traceback (most recent call last):\nValueError: bad rate\n")
    await ended(rig, 1)
    assert record(rig, "a") == sample("failed")


@looped(replace(task("a"), cwd="/", work=Work("train {num_gpus}"), extras=Extras(launch="torchrun", nproc=2)))
async def test_the_record_of_an_attempt_of_several_processes(rig: LoopRig) -> None:
    await begun(rig)
    await ended(rig, 137)
    assert record(rig, "a") == sample("ranks")


@looped(replace(task("a"), cwd="/", extras=Extras(nodes=2)), jobs=1)
async def test_the_record_of_an_attempt_on_a_cluster(rig: LoopRig) -> None:
    await begun(rig)
    job = rig.launcher.orders[-1].job
    assert job is not None
    assert job.record.startswith(b'{\n  "task": "a"')
    rig.launcher.take(rig.token("a"), "7")
    await rig.later(100.0)
    rig.launcher.begin(rig.token("a"), "7", "n1", "n2")
    await rig.later(10.0)
    await ended(rig, 0)
    assert record(rig, "a") == sample("cluster")
