"""What an edit of the task file would change: the difference of two readings of it, seen against the deck's state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from ..core.deck import Deck, Task
from ..core.marks import is_of_other_work
from ..core.phases import ACTIVE, FINAL, Cached, Phase, Succeeded
from ..core.spec import SET_AT_START, DeckFile, DeckSettings, Policy, TaskSpec, alike
from ..text import command_text, duration, mib_text, pairs_text

IN_PLACE = frozenset(
    (
        "priority", "next", "round", "group", "barrier", "needs", "after", "tags", "entry", "params", "progress",
        "metrics", "watch", "prune", "ladder", "on_oom", "on_timeout", "steps",
        *({one.name for one in fields(Policy)} - SET_AT_START),
    )
)  # fmt: skip
"""What also changes for an attempt that runs; everything else holds from the next one on."""
AT_NEXT_START = frozenset({"name", "log_dir", "state_dir", "no_gpu", "backend", "skip_existing", "snapshot"})
"""Settings that a live engine cannot change."""
_PARTS = frozenset({"resources", "policy", "work", "extras"})
"""Fields of a spec whose own fields are keys of the file."""
_WORDS = {
    "timeout_s": "timeout", "grace_s": "grace", "backoff_s": "backoff", "warn_before_s": "warn_before",
    "linger_s": "linger", "merge_stderr": "stderr", "gpu_memory_mib": "gpu_memory", "memory_mib": "memory",
    "barrier": "round_barrier", "ladder": "on_oom", "steps": "on_timeout", "resume": "resume_command",
    "python_env": "python",
    "foreign_memory_mib": "foreign_memory", "foreign_quiet_s": "foreign_quiet", "gang_patience_s": "gang_patience",
    "disk_mib": "disk", "params": "matrix", "cards": "gpu_profile", "given": "values of a retry",
}  # fmt: skip
_IGNORED = frozenset({"name", "position", "line", "fingerprint"})


@dataclass(frozen=True, slots=True)
class Change:
    """A task, or a setting of [deck], that says something else now."""

    name: str
    what: tuple[str, ...] = ()
    """Keys of a task, as in the file; for a setting its old and its new value."""
    same_work: bool = field(default=False, compare=False)
    """Only rules differ."""
    command: tuple[str, str] | None = field(default=None, compare=False)
    """Of a task whose command differs what it was and what it is, as a shell takes it."""


@dataclass(frozen=True, slots=True)
class FilePlan:
    """What applying the file as it is now does. Names in the file's order, the gone ones in the deck's."""

    file: str
    """As the user gave it."""
    digest: str
    """Of what was read: an apply of another reading is refused."""
    added: tuple[str, ...] = ()
    changed_waiting: tuple[Change, ...] = ()
    """Other work, and nothing of it runs: they start as the file now says."""
    changed_finished: tuple[Change, ...] = ()
    """Other work, and there is a result of the old."""
    changed_running: tuple[Change, ...] = ()
    """What runs goes on as it was started."""
    gone_waiting: tuple[str, ...] = ()
    gone_finished: tuple[str, ...] = ()
    gone_running: tuple[str, ...] = ()
    """They run to their end and are archived."""
    in_place: tuple[Change, ...] = ()
    """The same work under other rules (priority, needs, retries, timeout, …)."""
    settings_now: tuple[Change, ...] = ()
    settings_later: tuple[Change, ...] = ()
    """Settings that change only when the deck is opened again."""
    reordered: bool = False
    """The tasks stand in another order."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Of those above: a task, and under which name its work was done, or runs, so that it counts for it."""
    named_in_it: tuple[tuple[str, str], ...] = ()
    """The same where it counts for nothing, for the command has the name in it ({task})."""
    given_gone: tuple[tuple[str, str], ...] = ()
    """Tasks that go, and the values that retries have given them (name=value …), which go with them."""

    def __bool__(self) -> bool:
        return any(getattr(self, one.name) for one in fields(self)[2:])


def make_plan(deck: Deck, old: DeckFile, new: DeckFile, digest: str, settings_later: Iterable[str] = ()) -> FilePlan:
    """Compare *new* with what *deck* runs. *settings_later*: settings that cannot change now for other reasons."""
    found = _Sorting(deck)
    for spec in new.tasks:
        found.look_at(spec, new.selected)
    found.look_for_gone({spec.name for spec in new.tasks})
    now, later = _settings(old.settings, new.settings, AT_NEXT_START | set(settings_later))
    names = [spec.name for spec in new.tasks if spec.name in deck.by_name]
    return FilePlan(
        file=new.shown or new.path,
        digest=digest,
        settings_now=now,
        settings_later=later,
        renamed=_renamed(deck, new, [name_of(item) for key in NEW_WORK for item in found.lists.get(key, ())]),
        named_in_it=_named_in_it(deck, new, found.lists),
        given_gone=_given_gone(deck, {spec.name for spec in new.tasks}),
        reordered=names != sorted(names, key=lambda name: deck.by_name[name].index),
        **{name: tuple(items) for name, items in found.lists.items()},  # pyright: ignore[reportArgumentType]
    )


NEW_WORK = ("added", "changed_waiting", "changed_finished")
"""Kinds of change that give a name work which another may have done, or run."""


def name_of(item: Change | str) -> str:
    return item if isinstance(item, str) else item.name


def _renamed(deck: Deck, new: DeckFile, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Which of *names*, whose work is new to them, have that of another task, which has it no longer."""
    wanted = set(names)
    works = {spec.name: spec.fingerprint for spec in new.tasks}
    before: dict[str, str] = {}
    for task in deck.tasks if wanted else ():
        if task.attempt() is not None or (isinstance(task.phase, (Succeeded, Cached)) and not is_of_other_work(task)):
            work = task.begun_spec.fingerprint
            if works.get(task.name) != work:
                before.setdefault(work, task.name)
    found = ((name, before[work]) for name, work in works.items() if name in wanted and work in before)
    return tuple((name, other) for name, other in found if name != other)


def _named_in_it(deck: Deck, new: DeckFile, lists: Mapping[str, Sequence[Change | str]]) -> tuple[tuple[str, str], ...]:
    """Tasks that are new, and finished ones that are gone, whose commands differ only by the names in them: the first
    of one with the first of the other."""
    before: dict[str, list[str]] = {}
    for spec in (deck.by_name[name_of(item)].spec for item in reversed(lists.get("gone_finished", ()))):
        if spec.name in command_text(spec.work.command):
            before.setdefault(_unnamed(spec), []).append(spec.name)
    added = {name_of(item) for item in lists.get("added", ())} if before else ()
    works = ((spec.name, _unnamed(spec)) for spec in new.tasks if spec.name in added)
    return tuple((name, before[work].pop()) for name, work in works if before.get(work))


def _given_gone(deck: Deck, names: set[str]) -> tuple[tuple[str, str], ...]:
    """*names*: of the file as it is now."""
    gone = (task.spec for task in deck.tasks if task.spec.given and not task.gone and task.name not in names)
    return tuple((spec.name, pairs_text(dict(spec.given))) for spec in gone)


def _unnamed(spec: TaskSpec) -> str:
    return command_text(spec.work.command).replace(spec.name, "{task}")


class _Sorting:
    """Puts each task where it belongs."""

    def __init__(self, deck: Deck) -> None:
        self._deck = deck
        self.lists: dict[str, list[Change | str]] = {}

    def look_at(self, spec: TaskSpec, selected: frozenset[str] | None) -> None:
        task = self._deck.by_name.get(spec.name)
        chosen = selected is None or spec.name in selected
        if task is None or task.gone or (chosen and not task.selected):
            if chosen:
                self._put("added", spec.name)
            return
        if task.selected and not chosen and task.attempt() is None:
            self._put(f"gone_{_stand(task.phase)}", spec.name)
        elif not alike(task.spec, spec):
            self._changed(task, spec)

    def _changed(self, task: Task, spec: TaskSpec) -> None:
        what = differences(task.spec, spec)
        stand = _stand(task.phase)
        if task.spec.fingerprint != spec.fingerprint:
            command = (command_text(task.spec.work.command), command_text(spec.work.command))
            differs = command if command[0] != command[1] else None
            self._put(f"changed_{stand}", Change(spec.name, what or ("command",), command=differs))
        elif stand == "running" and not _all_in_place(task.spec, spec):
            self._put("changed_running", Change(spec.name, what, same_work=True))
        else:
            self._put("in_place", Change(spec.name, what, same_work=True))

    def look_for_gone(self, names: set[str]) -> None:
        for task in self._deck.tasks:
            if task.name not in names and not task.gone and (task.selected or task.attempt() is not None):
                self._put(f"gone_{_stand(task.phase)}", task.name)

    def _put(self, where: str, item: Change | str) -> None:
        self.lists.setdefault(where, []).append(item)


_BY_STAND = ("changed_waiting", "changed_finished", "changed_running", "gone_waiting", "gone_finished", "gone_running")


def as_they_stand(deck: Deck, plan: FilePlan) -> FilePlan:
    """*plan*, with tasks that have started or ended since it was made where they belong now."""
    found: dict[str, list[Change | str]] = {key: [] for key in (*_BY_STAND, "in_place")}
    found["in_place"] += plan.in_place
    for key in _BY_STAND:
        kind = key.partition("_")[0]
        for item in getattr(plan, key):
            task = deck.by_name.get(name_of(item))
            stand = key if task is None else f"{kind}_{_stand(task.phase)}"
            rules = isinstance(item, Change) and item.same_work and stand != "changed_running"
            found["in_place" if rules else stand].append(item)
    return replace(plan, **{key: tuple(items) for key, items in found.items()})  # pyright: ignore[reportArgumentType]


def _stand(phase: Phase) -> str:
    return "running" if isinstance(phase, ACTIVE) else "finished" if isinstance(phase, FINAL) else "waiting"


def differences(old: TaskSpec, new: TaskSpec) -> tuple[str, ...]:
    """Keys of the task file in which two specs differ."""
    found: dict[str, None] = {}
    for name in _fields_that_differ(old, new):
        found[_WORDS.get(name, name)] = None
    return tuple(found)


def _all_in_place(old: TaskSpec, new: TaskSpec) -> bool:
    return all(name in IN_PLACE for name in _fields_that_differ(old, new))


def _fields_that_differ(old: TaskSpec, new: TaskSpec) -> list[str]:
    found: list[str] = []
    for one in fields(TaskSpec):
        mine, other = getattr(old, one.name), getattr(new, one.name)
        if one.name in _IGNORED or mine == other:
            continue
        if one.name in _PARTS:
            found += [part.name for part in fields(mine) if getattr(mine, part.name) != getattr(other, part.name)]
        else:
            found.append(one.name)
    return found


def _settings(
    old: DeckSettings, new: DeckSettings, next_start: frozenset[str] | set[str]
) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    now: list[Change] = []
    later: list[Change] = []
    for one in fields(DeckSettings):
        before, after = getattr(old, one.name), getattr(new, one.name)
        if before != after:
            words = (_said(one.name, before), _said(one.name, after))
            (later if one.name in next_start else now).append(Change(_WORDS.get(one.name, one.name), words))
    return tuple(now), tuple(later)


def _said(name: str, value: object) -> str:
    if name.endswith("_mib") and isinstance(value, int):
        return mib_text(value)
    if name.endswith("_s") and isinstance(value, float):
        return duration(value)
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {item}" for key, item in value.items())  # pyright: ignore[reportUnknownVariableType]
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def settings_for_now(old: DeckSettings, new: DeckSettings, later: Iterable[str]) -> DeckSettings:
    """The new settings, without those that hold only from the next start on."""
    return replace(new, **{name: getattr(old, name) for name in AT_NEXT_START | set(later)})


Running = Literal["end", "restart", "keep"]
"""Of a task that runs as other work than the file now says. "end": it ends and is changed then; "restart": it is
stopped and starts as the file says; "keep": it ends, and its result counts as what the file says."""
Finished = Literal["rerun", "flag", "keep"]
"""Of a task that is finished as other work. "flag": it keeps its result and is marked as changed; "keep": its result
counts as what the file says."""


@dataclass(frozen=True, slots=True)
class Choices:
    running: Running = "end"
    finished: Finished = "rerun"
    tasks: Mapping[str, Running | Finished] = field(default_factory=dict[str, Running | Finished])
    """For single tasks, over the two above; one that does not fit where the task stands is passed over."""
    earlier: bool = False
    """Finished tasks that an edit of before has changed, and this one does not, keep their results, too."""
    asked: tuple[str, ...] = ()
    """Tasks that begin also where the deck has them already: an engine may have read them already."""
    begins: bool = True
    """Where the last run has ended, what is new begins the next."""
    waiting: tuple[str, ...] = ()
    """Tasks that become others only if they have not started since the plan: nobody has asked for that."""
    digest: str = ""
    """Of the plan that was agreed to: another reading is refused. Empty: whatever the file says."""

    def for_running(self, name: str) -> Running:
        chosen = self.tasks.get(name)
        return chosen if chosen in ("end", "restart", "keep") else self.running

    def for_finished(self, name: str) -> Finished:
        chosen = self.tasks.get(name)
        return chosen if chosen in ("rerun", "flag", "keep") else self.finished


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done."""

    plan: FilePlan
    rerun: tuple[str, ...] = ()
    restarted: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    pause_s: float = 0.0
    """How long the engine's loop did nothing else."""
