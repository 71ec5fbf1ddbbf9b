"""Cards are never over-committed: whatever starts, ramps up and ends in whichever order, what may yet be used fits."""

from __future__ import annotations

from dataclasses import dataclass

from core_world import World, cards, deck_file, spec
from hypothesis import given
from hypothesis import strategies as st

from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.phases import Running
from gpudeck.engine.core.spec import DeckSettings, TaskSpec

GIB = 1024
TOTALS = (24 * GIB, 40 * GIB, 80 * GIB)


@dataclass(frozen=True, slots=True)
class Box:
    """A deck whose tasks have true peaks that it does not know, on cards of several sizes."""

    totals: tuple[int, ...]
    slots: int | str
    graphics_mib: int
    tasks: tuple[TaskSpec, ...]
    peaks: dict[str, int]

    def world(self) -> World:
        auto = self.slots == "auto"
        made = World(deck_file(self.tasks, DeckSettings(slots_per_gpu="auto" if auto else 1)), self._cards, cores=64)
        for uuid in made.deck.gpus:
            made.strangers[uuid] = (i.Process(1, self.graphics_mib, graphics=True),)
        made.sample()
        made.begin()
        return made

    def _cards(self) -> list[Gpu]:
        made = cards(len(self.totals), slots=self.slots)
        for gpu, total in zip(made, self.totals, strict=True):
            gpu.total_mib, gpu.unread = total, True
        return made


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    totals = tuple(draw(st.lists(st.sampled_from(TOTALS), min_size=1, max_size=3)))
    slots = draw(st.sampled_from(["auto", "auto", 4]))
    graphics = draw(st.sampled_from([0, 0, 1500]))
    smallest = min(totals) - graphics
    tasks: list[TaskSpec] = []
    peaks: dict[str, int] = {}
    for letter in "abcd"[: draw(st.integers(1, 4))]:
        peak = draw(st.integers(200, smallest))
        asked = draw(st.sampled_from(["auto", "auto", "auto", peak, None]))
        if asked is None:
            # Such a task counts with its share of the card, or is alone on it.
            peak = min(peak, smallest if slots == "auto" else smallest // 4)
        gpus = draw(st.integers(1, min(2, len(totals))))
        for number in range(draw(st.integers(1, 4))):
            one = spec(f"{letter}{number}", gpu_memory_mib=asked, gpus=gpus, retries=2, backoff_s=1.0)
            tasks.append(one)
            peaks[one.name] = peak
    return Box(totals, slots, graphics, tuple(draw(st.permutations(tasks))), peaks)


def promised(world: World, box: Box) -> dict[str, int]:
    """What those on each card may yet use together."""
    found = dict.fromkeys(world.deck.gpus, box.graphics_mib)
    for proc in world.live():
        for uuid in proc.gpus:
            found[uuid] += box.peaks[proc.task]
    return found


@given(boxes(), st.data())
def test_no_card_is_promised_more_than_it_has(box: Box, data: st.DataObject) -> None:
    world = box.world()
    for _ in range(30):
        over = {uuid: mib for uuid, mib in promised(world, box).items() if mib > world.deck.gpus[uuid].total_mib}  # pyright: ignore[reportOperatorIssue]
        assert not over, (over, world.running())
        if not world.live():
            break
        move = data.draw(st.sampled_from(["ramp", "succeed", "succeed", "fail", "restart"]))
        name = data.draw(st.sampled_from(sorted(proc.task for proc in world.live())))
        if move == "restart":
            world.restart()
            world.sample()
            continue
        if not isinstance(world.task(name).phase, Running):
            continue
        proc = world.proc(name)
        share = 1.0 if move == "succeed" else data.draw(st.floats(0.0, 1.0))
        proc.used_mib = int(box.peaks[name] * share)
        world.advance(data.draw(st.sampled_from([6.0, 60.0])))
        world.sample()
        if move != "ramp":
            world.end(name, 0 if move == "succeed" else 1)
            world.advance(2.0)


@given(boxes())
def test_everything_comes_to_run_in_the_end(box: Box) -> None:
    assert all_in_turn(box.world(), box) == {"succeeded"}


def all_in_turn(world: World, box: Box) -> set[str]:
    """The phases of all tasks, once each that came to run has ended well with its peak seen."""
    while world.live():
        for proc in world.live():
            proc.used_mib = box.peaks[proc.task]
        world.advance(60.0)
        world.sample()
        world.end(min(proc.task for proc in world.live()))
    return {world.phase(task.name) for task in world.deck.tasks}


def gang(name: str) -> TaskSpec:
    return spec(name, entry="a", gpus=2, gpu_memory_mib="auto")


def behind_a_large_one(head_gib: int, small_gib: int, *, known_s: float | None = 3600.0, slots: int = 4) -> World:
    """`long` has 60 of a card's 80 GiB, `head` waits for it, `small` comes last and takes ten hours."""
    file = deck_file(
        [
            spec("long", gpu_memory_mib=60 * GIB),
            spec("head", gpu_memory_mib=head_gib * GIB),
            spec("small", gpu_memory_mib=small_gib * GIB),
        ],
        DeckSettings(gang_patience_s=0.0),
    )
    found = World(file, lambda: cards(1, slots=slots, total_mib=80 * GIB))
    if known_s is not None:
        found.deck.learned.success("fp-long", known_s)
    found.deck.learned.success("fp-small", 36_000.0)
    found.begin()
    return found


def test_what_is_left_beside_the_head_may_be_used_however_long_it_takes() -> None:
    found = behind_a_large_one(50, 20)
    assert found.running() == {"long": (0,), "small": (0,)}
    found.end("long")
    assert found.running() == {"head": (0,), "small": (0,)}


def test_what_the_head_needs_is_kept_for_it() -> None:
    assert behind_a_large_one(65, 20).running() == {"long": (0,)}


def test_a_slot_that_the_head_needs_is_kept_for_it() -> None:
    assert behind_a_large_one(50, 20, slots=1).running() == {"long": (0,)}
    assert behind_a_large_one(50, 20, slots=2).running() == {"long": (0,), "small": (0,)}


def test_beside_attempts_that_may_take_any_time_nothing_more_starts() -> None:
    assert behind_a_large_one(50, 20, known_s=None).running() == {"long": (0,)}


def test_of_tasks_that_share_cards_the_one_that_takes_most_of_them_comes_first() -> None:
    settings = DeckSettings(order="longest", slots_per_gpu="auto")
    lengths = {"thin": (100.0, 10), "thick": (60.0, 40), "short": (10.0, 40)}
    tasks = [spec(name, gpu_memory_mib=gib * GIB) for name, (_, gib) in lengths.items()]
    found = World(deck_file(tasks, settings), lambda: cards(1, slots="auto", total_mib=40 * GIB))
    for name, (seconds, _) in lengths.items():
        found.deck.learned.success(f"fp-{name}", seconds)
    found.begin()
    assert found.running() == {"thick": (0,)}
    found.end("thick")
    assert found.running() == {"thin": (0,)}


def test_a_gang_that_too_few_cards_are_large_enough_for_gets_whole_cards() -> None:
    box = Box((40 * GIB, 80 * GIB), "auto", 0, (gang("a0"), gang("a1")), {"a0": 39 * GIB, "a1": 39 * GIB})
    assert all_in_turn(box.world(), box) == {"succeeded"}


def test_what_a_desktop_keeps_of_a_card_does_not_make_it_too_small_for_what_has_run_on_it() -> None:
    tasks = tuple(spec(name, entry="a", gpu_memory_mib="auto") for name in ("a0", "a1"))
    box = Box((40 * GIB,), "auto", 1500, tasks, {"a0": 38 * GIB, "a1": 38 * GIB})
    assert all_in_turn(box.world(), box) == {"succeeded"}
