"""What a rung asks for, in what is ordered of a box and of a cluster."""

from __future__ import annotations

from dataclasses import replace

from gpudeck.engine.core.spec import Asks, CardWork, Extras, Resources, Resume, TaskSpec, Work
from gpudeck.engine.ports import JobOrder
from tests.fakes.loop_rig import LoopRig, looped, task

OOM = "torch.OutOfMemoryError: CUDA out of memory.\n"


def smaller(name: str) -> TaskSpec:
    asks = Asks(gpus=2, memory_mib=64, timeout_s=90.0, slurm=(("qos", "long"),))
    extras = Extras(slurm=(("mem", 10), ("time", 60.0), ("partition", "a")))
    return replace(task(name), ladder=(Work(("small",)),), on_oom=(asks,), extras=extras, resources=Resources(gpus=1))


async def runs_out_of_memory(rig: LoopRig) -> JobOrder:
    rig.begin()
    await rig.settle()
    order = rig.launcher.orders[-1]
    with open(order.stderr, "a") as file:
        file.write(OOM)
    rig.launcher.end(rig.token("a"), 1)
    await rig.settle()
    job = rig.launcher.orders[-1].job
    assert job is not None
    return job


@looped(smaller("a"), jobs=1)
async def test_a_cluster_is_asked_for_what_the_rung_says(rig: LoopRig) -> None:
    job = await runs_out_of_memory(rig)
    assert (job.gpus, job.memory_mib, job.limit_s) == (2, 64, 90.0 + job.grace_s)
    assert dict(job.options) == {"partition": "a", "qos": "long"}


def late(name: str) -> TaskSpec:
    """Resumed with other words on its rung of on_timeout, and further ones on that of on_oom."""
    step = CardWork("", 0, Work(("late",)), (Work(("late", "small")),), Resume(("resume", "late"), ()))
    spec = replace(task(name), work=Work(("train",)), ladder=(Work(("small",)),), on_timeout=(Asks(timeout_s=900.0),))
    policy = replace(spec.policy, timeout_s=10.0, grace_s=0.0)
    return replace(spec, steps=(step,), policy=policy, resume=Resume(("resume",), ()))


@looped(late("a"))
async def test_after_a_timeout_the_resume_command_of_the_rung_goes_on(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    await rig.later(11)
    rig.launcher.end(rig.token("a"), 143)
    await rig.settle()
    assert [order.argv for order in rig.launcher.orders] == [("train",), ("resume", "late")]
