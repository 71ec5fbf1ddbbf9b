"""Edits of a deck's file while it lives, and a world that applies them as the engine does."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from core_world import World, spec
from hypothesis import strategies as st

from gpudeck.engine.core.build import build
from gpudeck.engine.core.deck import Deck
from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.gone import Kept, take_back, take_unkept
from gpudeck.engine.core.recorded import recorded
from gpudeck.engine.core.reload import After, draft, follow_up, kept_specs, swap
from gpudeck.engine.core.spec import DeckFile, TaskSpec, matching


@dataclass(slots=True, repr=False)
class EditedWorld(World):
    """A world whose file may be edited; `_fresh` is what the next engine would build."""

    begun_as: list[Kept] = field(default_factory=list[Kept])
    drafted: tuple[DeckFile, Callable[[], list[Gpu]], Deck, int] | None = None
    make_box: Callable[[], list[Gpu]] = field(init=False)
    """All GPUs that there are: those of the first file."""
    taken: DeckFile = field(init=False)
    """The file as the engine before had it."""

    def __post_init__(self) -> None:
        self.make_box, self.taken = self.make_gpus, self.file
        World.__post_init__(self)

    def _build(self, file: DeckFile, make: Callable[[], list[Gpu]]) -> Deck:
        gpus = make()
        outside = [gpu for gpu in self.make_box() if gpu.uuid not in {ours.uuid for ours in gpus}]
        return build(file, gpus=gpus, outside=outside, cores=self.cores, on_cpu=self.on_cpu)

    def _fresh(self) -> Deck:
        deck = self._build(self.file, self.make_gpus)
        told = recorded(self.facts)
        for one in self.begun_as:
            if one.token in told.lasting_tokens:
                take_back(deck, one)
        take_unkept(deck, told, lambda: {task.name: task for task in self.taken.tasks})
        return deck

    def begin_edit(self, file: DeckFile, make_gpus: Callable[[], list[Gpu]] | None = None) -> None:
        """The new deck is made, as far as the facts of now go."""
        make = make_gpus or self.make_gpus
        if file.selected is not None:
            file = replace(file, selected=file.selected | {task.name for task in self.deck.active.values()})
        new = self._build(file, make)
        draft(self.deck, new, list(self.facts))
        self.drafted = (file, make, new, len(self.facts))

    def finish_edit(self, after: After | None = None) -> None:
        """The deck becomes the new one."""
        assert self.drafted is not None
        file, make, new, count = self.drafted
        self.drafted = None
        tail = self.facts[count:]
        self.begun_as = kept_specs(self.deck, new)
        swap(self.core, new, tail, self.begun_as, self.now)
        self.file, self.make_gpus = file, make
        self._check()
        self._work(self.core.act(lambda turn: follow_up(turn, after or After()), at=self.now, wall=self.wall))
        self.settle()

    def edit(
        self, file: DeckFile, after: After | None = None, make_gpus: Callable[[], list[Gpu]] | None = None
    ) -> None:
        self.begin_edit(file, make_gpus)
        self.finish_edit(after)

    def phases(self) -> dict[str, str]:
        """Without those that are gone: the next engine knows nothing of them."""
        return {task.name: self.phase(task.name) for task in self.deck.tasks if not task.gone}

    def restart(self, **options: object) -> None:
        self.drafted, self.taken = None, self.file
        World.restart(self, **options)  # pyright: ignore[reportArgumentType]


def with_tasks(file: DeckFile, *tasks: TaskSpec) -> DeckFile:
    """The same file with these tasks: needs that find nothing are dropped, as a sound file has none."""
    names = [task.name for task in tasks]
    sound: list[TaskSpec] = []
    for place, task in enumerate(tasks):
        others = [name for name in names if name != task.name]
        needs = tuple(pattern for pattern in task.needs if matching(pattern, others))
        after = tuple(pattern for pattern in task.after if matching(pattern, others))
        sound.append(replace(task, position=place, needs=needs, after=after))
    chosen = None if file.selected is None else frozenset(names) & file.selected
    return replace(file, tasks=tuple(sound), selected=chosen or None)


EDITS = (
    "none",
    "none",
    "none",
    "none",
    "drop",
    "work",
    "policy",
    "resources",
    "priority",
    "rename",
    "order",
    "outputs",
)


@st.composite
def edited(draw: st.DrawFn, file: DeckFile) -> DeckFile:
    """Any edit of a file: tasks added, changed, dropped, renamed; other rules; other settings."""
    tasks: list[TaskSpec] = []
    for task in file.tasks:
        kind = draw(st.sampled_from(EDITS))
        if kind != "drop":
            tasks.append(_edit(draw, task, kind))
    last = max((int(number) for task in file.tasks for number in re.findall(r"new-(\d+)", task.name)), default=0)
    for number in range(last + 1, last + 1 + draw(st.integers(0, 3)) + (not tasks)):
        names = [task.name for task in tasks]
        needs = (draw(st.sampled_from(names)),) if names and draw(st.booleans()) else ()
        entry = draw(st.sampled_from(["new-", "a"]))
        tasks.append(
            spec(f"new-{number}", entry=entry, group="new", needs=needs, retries=draw(st.sampled_from([0, 1])))
        )
    settings = replace(
        file.settings,
        order=draw(st.sampled_from(["file", "longest"])),
        cpu_slots=draw(st.sampled_from([None, 1, 2, 4])),
    )
    return with_tasks(replace(file, settings=settings), *tasks)


def _edit(draw: st.DrawFn, task: TaskSpec, kind: str) -> TaskSpec:
    match kind:
        case "work":
            return replace(task, fingerprint=task.fingerprint + "'")
        case "policy":
            timeout = draw(st.sampled_from([None, 5.0, 50.0, 1000.0]))
            policy = replace(task.policy, timeout_s=timeout, retries=draw(st.integers(0, 2)), grace_s=3.0)
            return replace(task, policy=policy)
        case "resources":
            cpus = draw(st.sampled_from([None, 1, 2]))
            return replace(task, resources=replace(task.resources, cpus=cpus, exclusive=draw(st.booleans())))
        case "priority":
            return replace(task, priority=draw(st.integers(0, 9)))
        case "rename":
            return replace(task, name=f"{task.name}r")
        case "order":
            return replace(task, needs=(), after=())
        case "outputs":
            return replace(task, outputs=() if task.outputs else ("/out",))
        case _:
            return task
