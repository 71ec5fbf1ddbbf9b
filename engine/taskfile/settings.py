"""The tables around the tasks: [deck], [notify], [doctor], [[gpu_profile]], and the run options that override them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ..core.spec import Budget, DeckSettings, Notify, OwnChecks, TaskSpec
from ..errors import UsageError
from .check import Checker, table_of
from .find import STATE_DIR, STATE_NAME, STATE_NAME_WORDS, default_log_dir, stem_of
from .kinds import record
from .layers import Layers, set_value
from .options import RunOptions
from .placeholders import Scope, fill_command, has_slots, marker
from .problems import BadValueError, Problems, did_you_mean
from .schema import BUDGET, DECK, DOCTOR, GPU_PROFILE, NOTIFY, OF_ALL, SLURM
from .values import as_text, is_list, is_table


def deck_settings(checker: Checker, layers: Layers, options: RunOptions) -> DeckSettings:
    """Validated settings; where something is wrong, its default, and the problem is noted."""
    said = _said(checker, layers)
    said |= _from_command_line(checker, options)
    folder, path = checker.source.folder, checker.source.path
    return record(
        DeckSettings,
        said,
        name=said.get("name", _default_name(path)),
        log_dir=_log_dir(said, folder, stem_of(path, options)),
        state_dir=os.path.join(folder, os.path.expanduser(cast("str", said.get("state_dir", STATE_DIR)))),
        max_submitted=_max_submitted(checker, layers),
        notify=record(Notify, layers.read(checker, "notify", NOTIFY)),
        budget=record(Budget, layers.read(checker, "budget", BUDGET)),
    )


def _max_submitted(checker: Checker, layers: Layers) -> int:
    """The default where it is not said rightly."""
    said = {key: value for key, value in layers.slurm.items() if key in OF_ALL}
    read = checker.read(said, SLURM, layers.path("slurm", "max_submitted")[:-1])
    return cast("int", read.get("max_submitted", DeckSettings().max_submitted))


def _said(checker: Checker, layers: Layers) -> dict[str, object]:
    said = layers.read(checker, "deck", DECK)
    for key in said:
        if has_slots(layers.deck[key]):
            checker.note(BadValueError("has a placeholder, and [deck] knows none"), layers.path("deck", key))
    return said


def _given(options: RunOptions) -> dict[str, tuple[str, object]]:
    """What the command line says of keys of [deck]: the option, and the value as a file would have it."""
    slots = None if options.slots_per_gpu is None else set_value(options.slots_per_gpu)
    said: dict[str, tuple[str, object]] = {
        "gpus": ("--gpus", options.gpus),
        "slots_per_gpu": ("--slots-per-gpu", slots),
        "halt": ("--fail-fast", "soon,fail=1") if options.fail_fast else ("--halt", options.halt),
        "backend": ("--backend", options.backend),
        "skip_existing": ("--skip-existing", options.skip_existing),
    }
    return {key: given for key, given in said.items() if given[1] is not None}


def _from_command_line(checker: Checker, options: RunOptions) -> dict[str, object]:
    said: dict[str, object] = {}
    for key, (option, value) in _given(options).items():
        try:
            said[key] = DECK[key].kind.read(value)
        except BadValueError as error:
            checker.add(0, f"{option} {error.words}")
    if options.log_dir is not None:
        said["log_dir"] = os.path.abspath(os.path.expanduser(options.log_dir))
    _check_names(checker, options)
    return said


def on_gpus(settings: DeckSettings, options: RunOptions) -> DeckSettings:
    """The settings with --gpus and --slots-per-gpu over them. Raises UsageError."""
    read: dict[str, Any] = {}
    for key, (option, value) in _given(options).items():
        if key in ("gpus", "slots_per_gpu"):
            try:
                read[key] = DECK[key].kind.read(value)
            except BadValueError as error:
                raise UsageError(f"{option} {error.words}") from error
    return replace(settings, **read)


def _check_names(checker: Checker, options: RunOptions) -> None:
    for option, name in (("--name", options.name), ("--profile", options.profile)):
        if name is not None and not STATE_NAME.fullmatch(name):
            checker.add(0, f'{option} "{name}": {STATE_NAME_WORDS}')
    if options.log_dir == "":
        checker.add(0, "--log-dir must not be empty")
    if options.limit is not None and options.limit < 1:
        checker.add(0, f"--limit must be at least 1, got {options.limit}")


def _default_name(path: str) -> str:
    stem = os.path.splitext(os.path.basename(path))[0]
    return (os.path.basename(os.path.dirname(path)) or stem) if os.path.basename(path) == "tasks.toml" else stem


def _log_dir(said: Mapping[str, object], folder: str, stem: str) -> str:
    return os.path.join(folder, os.path.expanduser(cast("str", said.get("log_dir", default_log_dir(stem)))))


def places(checker: Checker, layers: Layers, options: RunOptions) -> dict[str, str]:
    """For each deck key that was said: how a message about it begins."""
    found: dict[str, str] = {}
    for key in layers.deck:
        path = layers.path("deck", key)
        found[key] = f"{checker.source.shown}:{checker.source.lines.of(*path)}: {table_of(path)}"
    return {**found, **{key: option for key, (option, _) in _given(options).items()}}


_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def own_checks(checker: Checker, constants: Mapping[str, object], environ: Mapping[str, str]) -> OwnChecks:
    """What [doctor] says; {python} and {log_dir} stay for the moment when the checks run."""
    table = checker.table(checker.source.data.get("doctor", {}), ("doctor",))
    said = cast("Mapping[str, tuple[str, ...]]", checker.read(table, DOCTOR, ("doctor",)))
    scope = Scope({**constants, "python": marker("python"), "log_dir": marker("log_dir")}, environ)
    try:
        run = tuple([fill_command(scope.checked_text(text), scope.known, {}) for text in said.get("run", ())])
    except BadValueError as error:
        checker.note(error, ("doctor", "run"))
        run = ()
    imports = said.get("imports", ())
    for name in imports:
        if not _MODULE.fullmatch(name):
            wrong = BadValueError(f'must be names of modules, as "flash_attn", got "{name}"')
            checker.note(wrong, ("doctor", "imports"))
    return OwnChecks(run, imports)


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
        checker.at(("gpu_profile",), "write [[gpu_profile]] with two brackets: there can be many", where="")
        return ()
    made: dict[int, CardProfile] = {}
    for place, table in enumerate(cast("list[Mapping[str, object]]", found)):
        profile = _read(checker, layers, table, place)
        if profile is not None and profile.min_mib in made:
            words = f"there is another one for {made[profile.min_mib].name}"
            checker.at(("gpu_profile", place), words)
        elif profile is not None:
            made[profile.min_mib] = profile
    return tuple(sorted(made.values(), key=lambda profile: -profile.min_mib))


def _read(checker: Checker, layers: Layers, table: Mapping[str, object], place: int) -> CardProfile | None:
    path = ("gpu_profile", place)
    said = checker.read(table, GPU_PROFILE, path)
    if "min_memory" not in table:
        checker.at(path, 'min_memory is missing: "80GiB"')
    if not table.get("vars") and not table.get("env"):
        checker.at(path, "changes nothing: say vars or env")
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
                checker.note(BadValueError(words, name), ("gpu_profile", profile.place, "vars"))


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
            found.add(line, words, where=f"[[gpu_profile]] {profile.name}")
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
