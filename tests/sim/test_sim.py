"""Engines in simulated worlds: killed between any two awaits, on boxes that go down, disks that are full, GPUs that are
lost or taken. `python -m tests.sim` runs more of them, and shows one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.sim.marks import MARKS, UNREACHED, marks
from tests.sim.planted import KNOWN, PLANTED
from tests.sim.seeds import SLURM_EVERY, noticed, world_of
from tests.sim.slurm_planted import ON_CLUSTER
from tests.sim.small import EVENTS, Orders, RetriedWorld, SmallWorld
from tests.sim.world import World

_BLOCK = 20
_FEW, _MANY = 160, 3000
_RICH = (151, 288, 16, 664, 39, 1174, 194, 224, 60, 1560)
"""Worlds that come to much: to look at them first is quicker."""


@pytest.fixture
def folder() -> Iterator[str]:
    """On a disk in memory."""
    with tempfile.TemporaryDirectory(prefix="gpudeck-sim-", dir="/dev/shm") as name:
        yield name


def _keeps_all_promises(first: int, folder: str) -> None:
    for seed in range(first, first + _BLOCK):
        _, error = world_of(seed, folder)
        if error is not None:
            raise AssertionError(f"python -m tests.sim --first {seed} --runs 1") from error


@pytest.mark.parametrize("first", range(1, _FEW, _BLOCK))
def test_every_promise_is_kept_in_every_world(first: int, folder: str) -> None:
    _keeps_all_promises(first, folder)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(_FEW + 1, _MANY, _BLOCK))
def test_every_promise_is_kept_in_many_more_worlds(first: int, folder: str) -> None:
    _keeps_all_promises(first, folder)


def _every_order(events: Sequence[str], pieces: int, folder: str, first: str = "") -> None:
    orders = Orders(events, first)
    for order in orders:
        world = SmallWorld(order, pieces, f"{folder}/small")
        _go(world, f"{pieces} pieces after each of {order}")
        orders.went(order, world.did)


def _go(world: World, what: str) -> None:
    try:
        world.run()
    except Exception as error:
        raise AssertionError(f"{what}:\n" + "\n".join(world.box.trace)) from error
    finally:
        world.close()


@pytest.mark.parametrize("pieces", [1, 4, 20])
def test_every_promise_is_kept_in_every_order_of_five_events(pieces: int, folder: str) -> None:
    _every_order(EVENTS[:5], pieces, folder)


@pytest.mark.soak
@pytest.mark.parametrize("first", EVENTS)
def test_every_promise_is_kept_in_every_order_of_eight_events(first: str, folder: str) -> None:
    _every_order(EVENTS, 2, folder, first)


@pytest.mark.soak
@pytest.mark.parametrize("without", ["fails", "start a", "box down"])
def test_every_promise_is_kept_in_every_order_of_seven_events_far_apart(without: str, folder: str) -> None:
    _every_order([event for event in EVENTS if event != without], 20, folder)


def test_a_value_is_not_given_to_an_attempt_that_starts_meanwhile(folder: str) -> None:
    for after_ms in range(0, 700, 10):
        _go(RetriedWorld(after_ms / 1000, f"{folder}/small"), f"a value {after_ms} ms after the end")


def test_nor_to_one_that_starts_while_an_edit_is_applied(folder: str) -> None:
    for after_ms in range(0, 700, 5):
        world = RetriedWorld(after_ms / 1000, f"{folder}/small", applies=True)
        _go(world, f"an edit and a value {after_ms} ms after the end")


@pytest.mark.soak
def test_the_worlds_come_to_what_each_rule_is_for(folder: str) -> None:
    missing = set(MARKS)
    for seed in (*_RICH, *range(1, _MANY)):
        missing -= marks(world_of(seed, folder)[0])
        if not missing:
            return
    raise AssertionError(f"no world came to {sorted(missing)}")


def test_each_rule_is_come_to_or_said_why_not() -> None:
    reached = {int(name.split(":")[0]) for name in MARKS if name[0].isdigit()}
    assert sorted([*reached, *UNREACHED]) == list(range(1, 44))


def test_a_world_is_the_same_each_time_whatever_python_hashes_by() -> None:
    def traces(hash_seed: str) -> bytes:
        command = (sys.executable, "-c", _TRACES)
        root = Path(__file__).resolve().parents[2]
        path = os.pathsep.join((str(root), os.environ.get("PYTHONPATH", "")))
        env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
        return subprocess.run(command, env=env, cwd=root, capture_output=True, check=True).stdout

    assert traces("1") == traces("2") != b""


_TRACES = """
import tempfile
from tests.sim.seeds import world_of
with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
    for seed in (4, 9, 13, 61, 76):
        print("\\n".join(world_of(seed, folder)[0].box.trace))
"""


@pytest.mark.parametrize("name", ["a start is done before its fact is written", "GPUs of other decks are taken"])
def test_a_planted_defect_is_noticed(name: str, folder: str) -> None:
    with PLANTED[name]():
        assert noticed(folder, most=100)[1] is not None


def test_a_planted_defect_of_the_launcher_for_clusters_is_noticed(folder: str) -> None:
    with ON_CLUSTER["a submission without an answer is sent again"]():
        assert noticed(folder, most=50, every=SLURM_EVERY)[1] is not None


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(ON_CLUSTER))
def test_each_planted_defect_of_the_launcher_for_clusters_is_noticed(name: str, folder: str) -> None:
    with ON_CLUSTER[name]():
        assert noticed(folder, most=500, every=SLURM_EVERY)[1] is not None


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(PLANTED))
def test_each_planted_defect_is_noticed(name: str, folder: str) -> None:
    with PLANTED[name]():
        assert noticed(folder, most=1000, known=KNOWN.get(name, ()))[1] is not None
