"""Any deck, any edit of its file at any time, among all other mishaps: the promises hold after every step."""

from __future__ import annotations

from dataclasses import fields

import test_core_machine as machine
from core_decks import worlds
from core_edits import EditedWorld, edited
from core_removal import everything_ends
from core_restored import deck_facts, same, task_facts
from core_world import World, cards, deck_file, spec
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from gpudeck.engine.core.apply import replay
from gpudeck.engine.core.deck import Deck
from gpudeck.engine.core.phases import ACTIVE, Backoff, Cancelled, Unknown
from gpudeck.engine.core.reload import After
from gpudeck.engine.core.spec import DeckSettings
from gpudeck.engine.core.urgency import spread_urgency


def assert_same_as_restored(world: EditedWorld) -> None:
    """The next engine, with the file as it is now, comes to the same deck."""
    fresh = world._fresh()
    replay(fresh, world.facts)
    spread_urgency(fresh)
    live_deck, fresh_deck = deck_facts(world.deck, world.now), deck_facts(fresh, world.now)
    for facts in (live_deck, fresh_deck):
        # Entries, places and acts differ by tasks that are gone and have ended, of which the next engine knows nothing.
        del facts["entries"], facts["flags"], facts["deadlines"], facts["acts"]
    same(live_deck, fresh_deck, "deck")
    assert flagged(world.deck) == flagged(fresh)
    assert retries_due(world.deck, world.now) == retries_due(fresh, world.now)
    for old in world.deck.tasks:
        new = fresh.by_name.get(old.name)
        if old.gone and not isinstance(old.phase, ACTIVE):
            continue
        assert new is not None, old.name
        live, rebuilt = task_facts(old, world.now), task_facts(new, world.now)
        if isinstance(old.phase, (Unknown, Cancelled)):
            live["phase"] = rebuilt["phase"]
        if old.gone:
            # It is never taken up again: what it has spent means nothing.
            live = {key: live[key] for key in ("phase", "ended")}
        history = [fact for fact in world.facts if getattr(fact, "task", "") == old.name]
        same(live, rebuilt, f"{old.name}{' (gone)' * old.gone}, {history}")


def flagged(deck: Deck) -> list[set[str]]:
    marks = (deck.held, deck.marks.changed, deck.marks.stale)
    return [{deck.tasks[index].name for index in found if not deck.tasks[index].gone} for found in marks]


def retries_due(deck: Deck, now: float) -> list[tuple[str, float]]:
    """All of a task's: one that a quarantine took up again has that of its earlier failure, too, which moves nothing.
    Which of them comes first in the heap depends on what was in it before."""
    return sorted(
        (deck.tasks[due.task].name, due.at)
        for due in deck.deadlines
        if due.kind == "backoff" and due.at > now and isinstance(deck.tasks[due.task].phase, Backoff)
    )


class EditedDeck(machine.AnyDeck):
    world: EditedWorld

    @initialize(world=worlds(), slow=st.sampled_from([False, False, True]))
    def deck(self, world: World, slow: bool) -> None:
        made = EditedWorld(**{one.name: getattr(world, one.name) for one in fields(World) if one.init})
        self.world = made
        made.slow_checks = slow
        made.begin()

    @precondition(lambda self: not self.world.deck.stopping)
    @rule(data=st.data())
    def the_file_is_edited(self, data: st.DataObject) -> None:
        self.world.edit(data.draw(edited(self.world.file)), self.after(data))
        assert_same_as_restored(self.world)

    @precondition(lambda self: self.world.drafted is None and not self.world.deck.stopping)
    @rule(data=st.data())
    def an_edit_is_being_worked_in(self, data: st.DataObject) -> None:
        self.world.begin_edit(data.draw(edited(self.world.file)))

    @precondition(lambda self: self.world.drafted is not None and not self.world.deck.stopping)
    @rule(data=st.data())
    def it_is_swapped_in(self, data: st.DataObject) -> None:
        self.world.finish_edit(self.after(data))
        assert_same_as_restored(self.world)

    @precondition(lambda self: not self.world.deck.stopping)
    @rule(data=st.data())
    def gpus_get_fewer_or_more_slots(self, data: st.DataObject) -> None:
        world, make = self.world, self.world.make_gpus
        slots = data.draw(st.lists(st.sampled_from([1, 2, 4]), min_size=4, max_size=4))

        def with_slots() -> list[object]:
            made = make()
            for gpu, count in zip(made, slots, strict=False):
                if gpu.slots != "auto":
                    gpu.slots = count
            return made  # pyright: ignore[reportReturnType]

        world.edit(world.file, make_gpus=with_slots)  # pyright: ignore[reportArgumentType]

    @rule(unknown=st.integers(0, 3), reboot=st.integers(0, 3))
    def the_engine_is_killed_and_another_goes_on(self, unknown: int, reboot: int) -> None:
        assert_same_as_restored(self.world)
        if unknown == 0:
            for proc in self.world.live()[:1]:
                proc.pid_hidden = True
        unproven = (lambda proc: proc.pid_hidden) if unknown == 0 else (lambda _: False)
        self.world.restart(unproven=unproven, reboot=reboot == 0)

    def after(self, data: st.DataObject) -> After:
        deck = self.world.deck
        names = data.draw(st.lists(st.sampled_from([task.name for task in deck.tasks]), max_size=3, unique=True))
        kind = data.draw(st.sampled_from(["", "", "rerun", "restart", "accept"]))
        chosen = {kind: tuple(names)} if kind else {}
        return After(begins=tuple(names) if data.draw(st.booleans()) else (), **chosen)  # pyright: ignore[reportArgumentType]

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.drafted = None
            everything_ends(self.world)


TestEditedDeck = EditedDeck.TestCase


def test_a_task_that_waits_for_a_retry_once_more_after_a_quarantine_is_restored_as_it_is() -> None:
    tasks = spec("slow", retries=2, backoff_s=30.0), spec("quick", retries=2, backoff_s=1.0)
    settings = DeckSettings(gpu_quarantine=1)
    world = EditedWorld(deck_file(tasks, settings), lambda: cards(3), cores=8, on_cpu=False)
    world.begin()
    world.end("slow", 1, outcome=machine.OUTCOMES["device"])
    world.end("quick", 1)
    world.advance(2.0)
    world.end("quick", 1)
    world.end("slow", 1)
    assert [name for name, _ in retries_due(world.deck, world.now)] == ["quick", "slow", "slow"]
    assert_same_as_restored(world)
