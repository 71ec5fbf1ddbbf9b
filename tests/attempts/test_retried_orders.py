"""What a retry by hand asks for, in the processes that are started for it."""

from __future__ import annotations

from dataclasses import replace

from gpudeck.engine.core.events import RetryOptions
from gpudeck.engine.core.inputs import Verb
from gpudeck.engine.core.spec import Resume, TaskSpec, Work
from tests.fakes.loop_rig import LoopRig, looped, task


def resumable(name: str) -> TaskSpec:
    resume = Resume(("resume", "32"), (), (("resume", "16"),))
    return replace(
        task(name), work=Work(("train", "32"), (("LR", "1"),)), ladder=(Work(("train", "16")),), resume=resume
    )


async def begun(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()


async def ends(rig: LoopRig, code: int, log: str = "") -> None:
    with open(rig.launcher.orders[-1].stderr, "a") as file:
        file.write(log)
    rig.launcher.end(rig.token("a"), code)
    await rig.settle()


async def retried(rig: LoopRig, **options: object) -> None:
    again = RetryOptions(**options)  # pyright: ignore[reportArgumentType]
    rig.loop.post(Verb("retry", ("a",), again=again))
    await rig.settle()


@looped(resumable("a"))
async def test_a_retry_executes_the_resume_command(rig: LoopRig) -> None:
    await begun(rig)
    await ends(rig, 1)
    await retried(rig)
    assert [order.argv for order in rig.launcher.orders] == [("train", "32"), ("resume", "32")]


@looped(resumable("a"))
async def test_a_fresh_retry_executes_the_command(rig: LoopRig) -> None:
    await begun(rig)
    await ends(rig, 1)
    await retried(rig, fresh=True)
    assert rig.launcher.orders[-1].argv == ("train", "32")


@looped(resumable("a"))
async def test_an_attempt_on_a_rung_resumes_with_the_variables_of_the_rung(rig: LoopRig) -> None:
    await begun(rig)
    await ends(rig, 1, "torch.OutOfMemoryError: CUDA out of memory.\n")
    assert rig.launcher.orders[-1].argv == ("resume", "16")


@looped(resumable("a"))
async def test_variables_of_a_retry_go_over_those_of_the_task(rig: LoopRig) -> None:
    await begun(rig)
    await ends(rig, 1)
    await retried(rig, env=(("LR", "2"), ("BS", "8")))
    env = rig.launcher.orders[-1].env
    assert (env["LR"], env["BS"]) == ("2", "8")


@looped(resumable("a"))
async def test_a_retry_can_unset_a_variable(rig: LoopRig) -> None:
    await begun(rig)
    await ends(rig, 1)
    await retried(rig, env=(("LR", None),))
    assert "LR" not in rig.launcher.orders[-1].env
