"""[[gpu_profile]]: other values for tasks that land on cards with enough memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from ..core.spec import TaskSpec
from .check import Checker
from .layers import Layers
from .problems import BadValueError, Problems, did_you_mean
from .schema import GPU_PROFILE
from .values import as_text, is_list, is_table

WHERE = "[[gpu_profile]]"


@dataclass(frozen=True, slots=True)
class CardProfile:
    """One table."""

    name: str
    """The memory as written: "80GiB"."""
    min_mib: int
    vars: Mapping[str, object]
    env: Mapping[str, str | None]
    place: int
    """In the file, from 0."""


def card_profiles(checker: Checker, layers: Layers) -> tuple[CardProfile, ...]:
    """Those of the file, the largest cards first; what is wrong with them is among the problems. What --set says goes
    over them."""
    found = checker.source.data.get("gpu_profile", [])
    if not is_list(found) or not all(map(is_table, found)):
        line = checker.source.lines.of("gpu_profile")
        checker.problems.add(line, "write [[gpu_profile]] with two brackets: there can be many")
        return ()
    made: dict[int, CardProfile] = {}
    for place, table in enumerate(cast("list[Mapping[str, object]]", found)):
        profile = _read(checker, layers, table, place)
        if profile is not None and profile.min_mib in made:
            words = f"there is another one for {made[profile.min_mib].name}"
            checker.problems.add(checker.source.lines.of("gpu_profile", place), words, where=WHERE)
        elif profile is not None:
            made[profile.min_mib] = profile
    return tuple(sorted(made.values(), key=lambda profile: -profile.min_mib))


def _read(checker: Checker, layers: Layers, table: Mapping[str, object], place: int) -> CardProfile | None:
    path = ("gpu_profile", place)
    said = checker.read(table, GPU_PROFILE, path, where=WHERE)
    line = checker.source.lines.of(*path)
    if "min_memory" not in table:
        checker.problems.add(line, 'min_memory is missing: "80GiB"', where=WHERE)
    if not table.get("vars") and not table.get("env"):
        checker.problems.add(line, "changes nothing: say vars or env", where=WHERE)
    if "min_memory" not in said:
        return None
    values = cast("Mapping[str, object]", said.get("vars", {}))
    values = {name: value for name, value in values.items() if layers.path("vars", name) != ()}
    env = cast("Mapping[str, str | None]", said.get("env", {}))
    return CardProfile(as_text(table["min_memory"]), cast("int", said["min_memory"]), values, env, place)


def note_unknown(checker: Checker, profiles: tuple[CardProfile, ...], known: set[str]) -> None:
    """Note variables that nothing in the file has."""
    for profile in profiles:
        for name in profile.vars:
            if name not in known:
                hint = did_you_mean(name, sorted(known))
                words = "is in neither [vars] nor any matrix" + (f": {hint}" if hint else "")
                path = ("gpu_profile", profile.place, "vars")
                checker.note(BadValueError(words, name), path, key="vars", where=WHERE)


def swept_over(checker: Checker, profiles: tuple[CardProfile, ...], tasks: Sequence[TaskSpec]) -> tuple[str, ...]:
    """Warnings of profiles that take a matrix the axis in which its tasks differ."""
    found = Problems(checker.source.shown)
    for profile in profiles:
        for entry, names in _made_one(tasks, profile.vars.keys()).items():
            axes = " and ".join(f"{{{name}}}" for name in names)
            words = (
                f'sets {axes}, in which tasks of "{entry}" differ by its matrix: on such cards they are the same work'
            )
            line = checker.source.lines.of("gpu_profile", profile.place, "vars", names[0])
            found.add(line, words, where=f"{WHERE} {profile.name}")
    return tuple(found.lines())


def _made_one(tasks: Sequence[TaskSpec], variables: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """By entry, those of *variables* in which alone some of its tasks differ."""
    seen: dict[tuple[object, ...], Mapping[str, str]] = {}
    found: dict[str, dict[str, None]] = {}
    for task in tasks:
        own = {name: value for name, value in task.params.items() if name in variables}
        if own and task.cards:
            rest = frozenset((name, value) for name, value in task.params.items() if name not in variables)
            first = seen.setdefault((task.entry, rest), own)
            differs = (name for name, value in own.items() if first.get(name) != value)
            found.setdefault(task.entry, {}).update(dict.fromkeys(differs))
    return {entry: tuple(names) for entry, names in found.items() if names}
