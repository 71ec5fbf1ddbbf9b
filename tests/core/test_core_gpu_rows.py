"""What clients see of the GPUs of a deck that the core runs."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import replace

import pytest
from core_world import World, spec, world

from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.devices import STALE_S
from gpudeck.engine.ports import GpuInfo, Instant, Telemetry
from gpudeck.engine.protocol.wire import GpuMemory, GpuRow
from tests.inside.core import GpuRows

ME = pwd.getpwuid(os.geteuid()).pw_name


class Seen:
    """A deck's GPUs, looked at as a client does."""

    def __init__(self, found: World, closer: Mapping[str, Telemetry] | None = None, **info: object) -> None:
        self.world = found
        infos = {
            uuid: GpuInfo(uuid=uuid, index=gpu.index, name="A40", total_mib=gpu.total_mib, **info)  # pyright: ignore[reportArgumentType]
            for uuid, gpu in found.deck.gpus.items()
        }
        self._rows = GpuRows(found.deck, self, infos, (closer or {}).get)

    def now(self) -> Instant:
        return Instant(self.world.now, 1_700_000_000.25 + self.world.now)

    def row(self, index: int = 0) -> GpuRow:
        return self._rows.rows()[index]

    def read(self, *processes: i.Process, **fields: object) -> GpuRow:
        """GPU 0 reads this now."""
        used = sum(process.used_mib or 0 for process in processes)
        reading = i.GpuReading("GPU-0", self.world.now, 24_000, used, processes=processes)
        self.world.give(i.DevicesSampled((replace(reading, **fields),)))  # pyright: ignore[reportArgumentType]
        return self.row()

    def token(self, task: str) -> str:
        attempt = self.world.task(task).attempt()
        assert attempt is not None
        return attempt.token


# -- slots ------------------------------------------------------------------------------------------------------------


def test_a_task_keeps_its_slot_while_others_come_and_go() -> None:
    found = world(*(spec(name) for name in "abcd"), slots=3)
    seen = Seen(found)
    assert seen.row().slot_tasks == ("a", "b", "c")

    found.verb("hold", "d")
    found.end("b")
    assert seen.row().slot_tasks == ("a", "", "c")

    found.verb("release", "d")
    assert seen.row().slot_tasks == ("a", "d", "c")


def test_an_idle_gpu_shows_its_free_slots() -> None:
    assert Seen(world(slots=2)).row().slot_tasks == ("", "")


def test_a_gpu_with_as_many_slots_as_memory_allows_shows_those_that_are_taken() -> None:
    found = world(spec("a", gpu_memory_mib=1000), spec("b", gpu_memory_mib=1000), slots="auto")
    seen = Seen(found)
    assert seen.row().slot_tasks == ("a", "b")

    found.end("b")
    assert (seen.row().slots, seen.row().slot_tasks) == (0, ("a",))


# -- whose memory it is -----------------------------------------------------------------------------------------------


def test_memory_is_told_by_owner() -> None:
    found = world(spec("a"))
    seen = Seen(found)
    found.advance(10)

    row = seen.read(
        i.Process(10, 9000, token=seen.token("a")),
        i.Process(11, 500, user=ME),
        i.Process(12, 3000, user="someone-else"),
        i.Process(13, 40, user="someone-else", graphics=True),
        used_mib=14_000,
    )

    assert row.memory == GpuMemory(deck_mib=9000, mine_mib=500, others_mib=3040, unexplained_mib=1460)


def test_a_task_of_the_deck_on_another_gpu_than_its_own_counts_as_the_decks() -> None:
    found = world(spec("a"), gpus=2)
    seen = Seen(found)
    found.advance(10)
    token = seen.token("a")
    at, place = found.now, found.running()["a"][0]
    stray = i.GpuReading(f"GPU-{1 - place}", at, 24_000, 700, processes=(i.Process(10, 700, token=token),))

    found.give(i.DevicesSampled((stray,)))

    assert seen.row(1 - place).memory == GpuMemory(deck_mib=700)
    assert seen.row(1 - place).processes[0].task == "a"


def test_what_a_task_used_that_has_just_ended_is_nobody_elses() -> None:
    found = world(spec("a"))
    seen = Seen(found)
    found.advance(10)
    seen.read(i.Process(10, 9000, token=seen.token("a")), used_mib=9000)

    found.advance(1)
    found.end("a")

    assert seen.row().memory == GpuMemory(deck_mib=9000)


def test_a_container_s_processes_that_came_with_the_task_count_as_the_decks() -> None:
    found = world(spec("a"))
    seen = Seen(found)
    found.advance(10)

    row = seen.read(i.Process(900_000, 8000, visible=False))

    assert row.memory == GpuMemory(deck_mib=8000)


def test_memory_that_is_not_known_is_nobodys() -> None:
    assert Seen(world(spec("a"))).read(used_mib=None).memory is None


# -- readings ---------------------------------------------------------------------------------------------------------


def test_what_only_people_look_at_is_part_of_the_row() -> None:
    closer = Telemetry(
        at=1.0, sm_clock_mhz=1700, throttle=("power",), missing={"fan_percent": "not supported"}, power_limit_w=250.0
    )

    row = Seen(world(spec("a")), {"GPU-0": closer}, slowdown_c=98, power_limit_w=300.0).read(util_percent=50)

    assert (row.util_percent, row.sm_clock_mhz, row.throttle, row.slowdown_c) == (50, 1700, ("power",), 98)
    assert (row.power_limit_w, dict(row.missing)) == (250.0, {"fan_percent": "not supported"})


def test_limits_are_known_from_the_start() -> None:
    row = Seen(world(spec("a")), slowdown_c=98, power_limit_w=300.0).row()

    assert (row.slowdown_c, row.power_limit_w, row.throttle) == (98, 300.0, None)


def test_a_lost_gpu_says_why_and_keeps_no_clocks() -> None:
    seen = Seen(world(spec("a")), {"GPU-0": Telemetry(at=1.0, sm_clock_mhz=1700)})

    row = seen.read(lost="GPU is lost", used_mib=None, total_mib=None)

    assert (row.lost, row.note, row.note_kind) == ("GPU is lost", "lost (GPU is lost)", "lost")
    assert (row.sm_clock_mhz, row.util_percent, row.memory) == (None, None, None)


def test_readings_that_no_longer_come_are_stale_since_the_last_one() -> None:
    seen = Seen(world(spec("a")))
    seen.read()
    at = seen.world.now
    assert seen.row().stale_since is None

    seen.world.now += STALE_S + 1

    assert seen.row().stale_since == round(1_700_000_000.25 + at)
    assert seen.read().stale_since is None


def test_a_stale_gpu_looks_the_same_as_time_goes_on() -> None:
    seen = Seen(world(spec("a")))
    seen.read()
    seen.world.now += 60
    before = seen.row()

    seen.world.now += 60

    assert seen.row() == before


@pytest.mark.parametrize("verb", ["drain", "take"])
def test_what_the_user_did_to_a_gpu_is_told(verb: str) -> None:
    found = world(spec("a"))
    found.give(i.GpuVerb(verb, "GPU-0"))  # pyright: ignore[reportArgumentType]

    row = Seen(found).row()

    assert (row.mark, row.note_kind) == (verb, "drained" if verb == "drain" else "")


def test_who_is_on_a_gpu_is_told_with_its_kind() -> None:
    found = world(spec("a"), begin=False)
    found.stranger("GPU-0", 10_240)
    found.sample()

    assert (Seen(found).row().note, Seen(found).row().note_kind) == ("alice, pid 4711, 10.0 GiB", "foreign")


# -- simulated GPUs ---------------------------------------------------------------------------------------------------


def test_what_is_made_up_for_a_simulated_gpu_has_its_task_and_no_pid() -> None:
    found = world(spec("a"))
    found.deck.gpus["GPU-0"].simulated = True
    seen = Seen(found)

    row = seen.read(i.Process(5_000_000, 8000, token=seen.token("a"), visible=False))

    assert [(process.pid, process.task, process.used_mib) for process in row.processes] == [(0, "a", 8000)]
    assert row.memory == GpuMemory(deck_mib=8000)


def test_what_is_still_read_of_an_attempt_that_has_ended_counts_as_the_decks() -> None:
    found = world(spec("a"), spec("b"), slots=2)
    seen = Seen(found)
    over, token = seen.token("a"), seen.token("b")
    found.end("a")
    found.advance(10)

    row = seen.read(
        i.Process(5_000_000, 8000, token=over, visible=False), i.Process(5_000_001, 1000, token=token, visible=False)
    )

    assert row.memory == GpuMemory(deck_mib=9000)
