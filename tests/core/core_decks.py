"""Random decks: small, without cycles, and each task fits the box when nothing is in its way."""

from __future__ import annotations

from dataclasses import dataclass, replace

from core_world import CARD_MIB, World, cards, deck_file, spec
from hypothesis import strategies as st

from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.spec import Asks, DeckFile, DeckSettings, Halt, Policy, Resume, TaskSpec, Work


@dataclass(frozen=True, slots=True)
class Box:
    gpus: int
    slots: tuple[int | str, ...]
    cores: int
    linked: bool
    known_size: bool

    def make(self) -> list[Gpu]:
        made = cards(self.gpus, total_mib=CARD_MIB if self.known_size else None)
        for gpu, slots in zip(made, self.slots, strict=True):
            gpu.slots = slots  # pyright: ignore[reportAttributeAccessIssue]
            if self.linked:
                gpu.links = {other.uuid: 3 if other.index // 2 == gpu.index // 2 else 1 for other in made}
        return made


HALTS = st.sampled_from([Halt("soon", fail=2), Halt("now", fail=1), Halt("soon", fail_percent=30.0)])


@st.composite
def settings(draw: st.DrawFn, gpus: int, auto: bool) -> DeckSettings:
    return DeckSettings(
        slots_per_gpu="auto" if auto else 1,
        cpu_slots=draw(st.sampled_from([None, 1, 2, 4])),
        order=draw(st.sampled_from(["file", "longest"])),
        halt=draw(HALTS) if draw(st.integers(0, 4)) == 0 else None,
        foreign=draw(st.sampled_from(["avoid", "avoid", "fit", "ignore"])),
        keep_free=1 if gpus > 1 and draw(st.integers(0, 3)) == 0 else 0,
        gpu_quarantine=draw(st.sampled_from([3, 2, 1])),
        gang_patience_s=draw(st.sampled_from([900.0, 0.0, 100.0])),
        foreign_quiet_s=draw(st.sampled_from([60.0, 0.0])),
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    count = draw(st.integers(0, 4))
    auto = draw(st.integers(0, 4)) == 0
    slots = tuple("auto" if auto else draw(st.sampled_from([1, 1, 2, 4])) for _ in range(count))
    box = Box(count, slots, draw(st.sampled_from([4, 16])), draw(st.booleans()), draw(st.integers(0, 5)) > 0)
    chosen = draw(settings(count, auto))
    tasks = draw(entries(count, chosen.keep_free))
    names = [task.name for task in tasks]
    selected = None
    if draw(st.integers(0, 3)) == 0:
        selected = draw(st.sets(st.sampled_from(names), min_size=1))
    file = deck_file(tasks, chosen, selected)
    return World(file, box.make, cores=box.cores, on_cpu=count == 0)


@st.composite
def entries(draw: st.DrawFn, gpus: int, keep_free: int) -> list[TaskSpec]:
    tasks: list[TaskSpec] = []
    rounds: dict[str, int] = {}
    for letter in "abcdefgh"[: draw(st.integers(1, 8))]:
        group = draw(st.sampled_from(["", "g"]))
        rounds[group] = rounds.get(group, 0) + draw(st.sampled_from([0, 0, 1]))
        shared = draw(keys(gpus, keep_free))
        before = [task.name for task in tasks]
        for number in range(draw(st.integers(1, 4))):
            needs = draw(references(before)) if before else ()
            after = draw(references(before)) if before else ()
            tasks.append(
                spec(f"{letter}{number}", group=group, round=rounds[group], needs=needs, after=after, **shared)
            )
    return tasks


@st.composite
def references(draw: st.DrawFn, before: list[str]) -> tuple[str, ...]:
    if draw(st.integers(0, 4)):
        return ()
    name = draw(st.sampled_from(before))
    return (draw(st.sampled_from([name, f"{name[0]}*"])),)


@st.composite
def keys(draw: st.DrawFn, gpus: int, keep_free: int) -> dict[str, object]:
    """What the tasks of one entry share."""
    rare = lambda value, usual=None, odds=4: value if draw(st.integers(0, odds)) == 0 else usual  # noqa: E731
    wanted = draw(st.sampled_from([0, 1, 1, 1, 1, 2, 3, 4, "all"]))
    if isinstance(wanted, int) and gpus:
        wanted = min(wanted, gpus - keep_free)
    ids: tuple[str, ...] = ()
    if wanted == 1 and not keep_free and gpus:
        ids = rare((str(draw(st.integers(0, gpus - 1))),), ())
    ladder = rare((Work("small"), Work("smaller")), ())
    fewer = {"gpus": 1} if isinstance(wanted, int) and wanted > 1 else {}
    return {
        "gpus": wanted,
        "gpu_ids": ids,
        "exclusive": rare(True, False),
        "gpu_memory_mib": draw(st.sampled_from([None, None, None, "auto", 5_000, 11_000, CARD_MIB])),
        "cpus": rare(draw(st.sampled_from([2, 4, 8])), odds=2),
        "memory_mib": rare(20_000, odds=2),
        "max_parallel": rare(draw(st.integers(1, 2))),
        "retries": draw(st.sampled_from([0, 1, 3])),
        "backoff_s": draw(st.sampled_from([10.0, 1.0])),
        "timeout_s": rare(draw(st.sampled_from([50.0, 1000.0]))),
        "warn_signal": rare("USR1"),
        "leftovers": draw(st.sampled_from(["stop", "wait"])),
        "ladder": ladder,
        "on_oom": rare((Asks(memory_mib=30_000), Asks(gpu_memory_mib=5_000, **fewer)), ()) if ladder else (),
        "on_timeout": rare((Asks(timeout_s=100.0), Asks(timeout_s=2000.0, memory_mib=10_000, **fewer)), ()),
        "resume": rare(Resume("again", ()), Resume("again", ("/ckpt",))),
        "outputs": rare(("/out",), ()),
        "priority": draw(st.sampled_from([0, 0, 0, 1, 5])),
        "barrier": draw(st.sampled_from(["succeeded", "ended"])),
    }


def changed_file(file: DeckFile, name: str, **more: object) -> DeckFile:
    """The same file, one task with other work; *more*: what else it says now, keys of its policy too."""
    policy = {key: more.pop(key) for key in list(more) if key in Policy.__dataclass_fields__}

    def other(task: TaskSpec) -> TaskSpec:
        fingerprint = task.fingerprint.removesuffix("'") if task.fingerprint.endswith("'") else task.fingerprint + "'"
        judged = replace(task.policy, **policy)  # pyright: ignore[reportArgumentType]
        return replace(task, fingerprint=fingerprint, policy=judged, **more)  # pyright: ignore[reportArgumentType]

    return replace(file, tasks=tuple(other(task) if task.name == name else task for task in file.tasks))
