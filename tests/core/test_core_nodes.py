"""GPUs of several nodes, as a Slurm job has them: a task's are all on one."""

from __future__ import annotations

from core_world import World, cards, deck_file, spec

from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.schedule import pick
from gpudeck.engine.core.spec import TaskSpec


def nodes(*sizes: int) -> list[Gpu]:
    """Cards numbered through, so many of them on each node."""
    made = cards(sum(sizes))
    for gpu, node in zip(made, (node for node, size in enumerate(sizes) for _ in range(size)), strict=True):
        gpu.node = f"node{node + 1}"
    return made


def begun(*tasks: TaskSpec, sizes: tuple[int, ...] = (2, 2)) -> World:
    found = World(deck_file(tasks), lambda: nodes(*sizes), cores=16)
    found.begin()
    return found


def test_a_task_on_several_gpus_gets_them_on_one_node() -> None:
    found = begun(spec("one"), spec("gang", gpus=2))
    assert found.running() == {"one": (0,), "gang": (2, 3)}


def test_tasks_on_one_gpu_take_those_of_all_nodes() -> None:
    found = begun(*(spec(name) for name in "abcd"))
    assert found.running() == {"a": (0,), "b": (1,), "c": (2,), "d": (3,)}


def test_a_task_for_all_gpus_gets_those_of_a_whole_node() -> None:
    found = begun(spec("whole", gpus="all"), sizes=(1, 3))
    assert found.running() == {"whole": (1, 2, 3)}


def test_all_gpus_of_a_node_are_those_that_answer() -> None:
    found = World(deck_file([spec("whole", gpus="all")]), lambda: nodes(1, 3), cores=16)
    found.gone_gpus.add("GPU-2")
    found.sample()
    found.begin()
    assert found.running() == {"whole": (1, 3)}


def test_gpus_are_held_for_a_gang_on_the_node_that_is_expected_to_be_free_first() -> None:
    found = World(
        deck_file([spec("long"), spec("a"), spec("short"), spec("b"), spec("gang", gpus=2)]),
        lambda: nodes(2, 2),
        cores=16,
    )
    for name, seconds in {"long": 3600.0, "a": 3600.0, "short": 60.0, "b": 120.0}.items():
        found.deck.learned.success(found.task(name).spec.fingerprint, seconds)
    found.begin()
    reservation = pick(found.deck, found.now).reservation
    assert reservation is not None
    assert reservation.gpus == {"GPU-2", "GPU-3"}


def test_while_a_gang_waits_for_a_node_the_others_are_free() -> None:
    tasks = [spec("a"), spec("b"), spec("gang", gpus=2), spec("small")]
    found = World(deck_file(tasks), lambda: nodes(1, 2), cores=16)
    for name, seconds in {"b": 60.0, "small": 3600.0}.items():
        found.deck.learned.success(found.task(name).spec.fingerprint, seconds)
    found.begin()
    assert found.running() == {"a": (0,), "b": (1,)}
    found.end("a")
    assert found.running() == {"b": (1,), "small": (0,)}


def test_what_no_node_has_enough_gpus_for_holds_up_nobody() -> None:
    found = begun(spec("huge", gpus=3), spec("small"))
    assert found.running() == {"small": (0,)}
