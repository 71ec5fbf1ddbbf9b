"""Takes away what `explain` names, as a user would, until a task starts."""

from __future__ import annotations

from core_world import World

from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.fit import Obstacle
from gpudeck.engine.core.phases import Queued, Unknown
from gpudeck.engine.core.schedule import pick


def starts_once_cleared(world: World, name: str) -> None:
    """Fails unless taking every named obstacle away, again and again, makes a queued task start or end as cached."""
    task = world.task(name)
    seen: list[list[str]] = []
    number = task.attempts
    world.slow_checks = False
    world.refuse = 0
    for _ in range(20 + 3 * len(world.deck.tasks)):
        if task.attempts > number or not isinstance(task.phase, Queued):
            return
        obstacles = explain(world.deck, task, world.now)
        seen.append([f"{obstacle.kind}: {obstacle.text}" for obstacle in obstacles])
        assert obstacles, f"{name} waits and nothing is said to be in its way"
        for obstacle in obstacles:
            remove(world, obstacle, name)
        world.settle()
    raise AssertionError(f"{name} never starts: {seen[-3:]}\n{state_of(world)}")


def state_of(world: World) -> str:
    deck = world.deck
    lines = [
        f"runs {world.running()}, queue {[deck.tasks[index].name for index in deck.queue]}, {pick(deck, world.now)}",
        f"plan due {deck.plan_due}, checking {deck.checking}, arrivals {deck.arrivals}, run {deck.run}",
        str(world),
    ]
    return "\n".join(lines)


def remove(world: World, obstacle: Obstacle, name: str) -> None:
    gpu = obstacle.gpu
    match obstacle.kind:
        case "paused" | "halted" | "ended":
            world.verb("unpause")
        case "stopping":
            world.deck.stopping = False
            world.give(i.Tick())
        case "disk":
            world.give(i.JournalState(True))
        case "later":
            world.advance(3.0)
        case "held":
            world.verb("release", name)
        case "checking":
            world.answer_checks()
        case (
            "max_parallel"
            | "outputs"
            | "cpus"
            | "cpu slots"
            | "slots"
            | "exclusive"
            | "keep_free"
            | "submitted"
            | "after"
        ):
            assert obstacle.tasks or obstacle.kind == "keep_free", f"{obstacle.kind} names nobody"
            finish(world, *obstacle.tasks)
        case "memory":
            world.memory_mib = 200_000
            finish(world, *obstacle.tasks)
            world.sample()
        case "gpu_memory":
            world.strangers.pop(gpu, None)
            finish(world, *obstacle.tasks)
            world.advance(6.0)
            world.sample()
        case "order" | "reserved":
            world.answer_checks()
            world.verb("cancel", *obstacle.tasks)
        case "unread":
            world.sample()
        case "lost":
            world.gone_gpus.discard(gpu)
            world.sample()
        case "foreign":
            world.strangers.pop(gpu, None)
            world.advance(6.0)
            world.sample()
        case "claimed":
            world.elsewhere.pop(gpu, None)
            world.sample()
        case "quiet":
            world.advance(61.0)
            world.sample()
        case "drained" | "quarantined":
            world.give(i.GpuVerb("enable", gpu))
        case "gpus" | "not allowed":
            pass
        case _:
            raise AssertionError(f"{obstacle.kind} is no obstacle of a queued task")


def finish(world: World, *names: str) -> None:
    """End what runs of these tasks, well."""
    for name in names:
        if isinstance(world.task(name).phase, Unknown):
            world.verb("cancel", name)
            continue
        for proc in world.live():
            if proc.task == name:
                world.end(name)
                break


def everything_ends(world: World) -> None:
    """All obstacles go, all that runs ends well: the run must come to its end in a bounded number of steps."""
    if world.deck.stopping:
        world.restart()
    calm(world)
    for _ in range(40 + 12 * len(world.deck.tasks)):
        if world.deck.run.ended:
            return
        if world.deck.run.halted:
            world.verb("unpause")
        for task in list(world.deck.active.values()):
            finish(world, task.name)
        world.settle()
        if world.deck.run.ended:
            return
        due = world.deck.next_deadline()
        world.advance(60.0 if due is None else max(0.0, due - world.now))
        world.sample()
    waiting = {task.name: [o.text for o in explain(world.deck, task, world.now)] for task in world.deck.tasks}
    raise AssertionError(f"the run does not end: {world.phases()}, {waiting}\n{world}")


def calm(world: World) -> None:
    world.strangers.clear()
    world.gone_gpus.clear()
    world.elsewhere.clear()
    world.memory_mib = 200_000
    world.refuse = 0
    world.slow_checks = False
    world.answer_checks()
    world.give(i.JournalState(True))
    world.verb("unpause")
    world.verb("release", *[task.name for task in world.deck.tasks])
    for uuid in world.deck.gpus:
        world.give(i.GpuVerb("enable", uuid))
    world.sample()
    world.advance(70.0)
    world.sample()
