"""Everything that is known of one task, for `gpudeck show` and the screen's detail view."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from ..adapters.processes.terminal import is_on_terminal
from ..attempts.secrets import masked_command, masked_env
from ..attempts.start_plan import Planner, ShownLaunch
from ..core.deck import Deck, Task
from ..core.devices import mixed_in_words
from ..core.explain import explain
from ..core.fit import memory_in_words
from ..core.flags import flags
from ..core.gpu_names import indices
from ..core.phases import NAMES, Ended
from ..core.spec import Command, Metric, TaskSpec, Work
from ..logs.described import describe
from ..logs.failure import hint_of
from ..logs.files import AttemptPaths
from ..taskfile.kinds import OWN_VARIABLES, RUN_VARIABLE
from ..taskfile.placeholders import without_markers
from ..taskfile.values import as_text
from ..text import duration, mib_text
from .cluster_rows import hour, pending_in_words

_OURS = OWN_VARIABLES | {RUN_VARIABLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class _AnyAttempt:
    number: int
    done_as: str = ""
    """The other name whose attempt it is, which did this work; empty: its own."""
    gpus: tuple[int, ...]
    log: str
    err: str
    json: str
    rung: int
    """0: it ran the command as written; k: rung k of on_oom."""
    rung_changes: tuple[str, ...]
    """What its rungs change, as the task file says now."""
    timeout_rung: int = 0
    """The same of on_timeout."""
    gpu_profile: tuple[str, ...] = ()
    """The [[gpu_profile]] of its GPUs by its memory, and what that changes; empty: none."""
    job: str = ""
    """The cluster's id of it; empty: it ran on this box."""
    nodes: tuple[str, ...] = ()
    """Nodes of the cluster that it ran on."""
    script: str = ""
    """What the cluster was given to run, kept; empty: it ran on this box."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptDetails(_AnyAttempt):
    """One attempt that is over."""

    reason: str
    kind: str
    exit_code: int | None
    duration_s: float
    peak_mib: int
    hint: str = ""
    """What the user may do about it; empty: nothing known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningDetails(_AnyAttempt):
    """The attempt that lasts."""

    pid: int
    started: float
    """Seconds since the epoch."""
    elapsed_s: float
    expected_s: float | None
    mixed: str = ""
    """A warning that its GPUs are of several models."""
    pending: bool = False
    """The cluster has not begun it; `started` and `elapsed_s` are since it was submitted."""
    pending_why: str = ""
    """Why not: "begins ~14:05, Priority"."""


@dataclass(frozen=True, slots=True)
class TaskDetails:
    name: str
    entry: str
    line: int
    """In the task file; 0: not known."""
    state: str
    flags: tuple[str, ...]
    command: Command
    """What its newest attempt executes or executed; while there is none, what is known only at its start is {name}.
    Of a task flagged changed it is what the file says now: what an attempt executed stands in its attempt-N.json."""
    env: Mapping[str, str | None]
    cwd: str
    python: str
    fingerprint: str
    round: int
    group: str
    needs: tuple[str, ...]
    after: tuple[str, ...]
    waits_on: tuple[str, ...]
    """Tasks that `needs` and `after` mean."""
    needed_by: tuple[str, ...]
    gpus: int | str
    outputs: tuple[str, ...]
    metrics: tuple[Metric, ...]
    """How its metrics are read, as the task file says."""
    params: Mapping[str, str]
    tags: tuple[str, ...]
    priority: int
    effective_priority: int
    """The larger of its own and of what waits for it."""
    retries_used: int
    retries: int
    retried_fresh: bool
    """Asked for by hand (`retry --fresh`): it does not go on from where an attempt came to."""
    retried_env: Mapping[str, str | None]
    """What `retry --env` set, until it has settled."""
    retried_not_on: tuple[str, ...]
    """GPUs that `retry --not-on` keeps it from, by index where that is known."""
    waits_for: tuple[str, ...]
    """What keeps it from starting, the most telling first."""
    running: RunningDetails | None
    attempts: tuple[AttemptDetails, ...]
    """Those that are over, oldest first; last the one that did its work under another name."""
    launch: ShownLaunch | None = None
    """What starts its processes; None: `command` is executed itself."""
    gpu_memory: str = ""
    """What it asks for on each of its cards, and why; empty: nothing."""
    image: str = ""
    """Of the container that it runs in; empty: in none."""
    container: str = ""
    """What runs that."""
    anew: Command = ()
    """What an attempt executes that begins from the beginning."""
    resume: Command | None = None
    """What its next attempt executes to go on from where one before came to; None: it begins anew."""
    on_terminal: bool = False
    """It runs on a terminal, at which `gpudeck attach` sits down."""
    given: Mapping[str, str] = field(default_factory=dict[str, str])
    """What `retry --set` has put in the place of the file's values."""
    vars: Mapping[str, str] = field(default_factory=dict[str, str])
    """The file's [vars] that it has: neither its params nor `given` stand in their place. Secrets masked."""


def details_of(
    deck: Deck,
    task: Task,
    paths: Callable[[str, int], AttemptPaths],
    index_of: Mapping[str, int],
    at: float,
    planner: Planner,
    variables: Mapping[str, str],
) -> TaskDetails:
    """*paths* tells where an attempt's files are; *index_of* a GPU's index by UUID; *at* is CLOCK_BOOTTIME; *planner*
    knows what starts it, as people are to see it; *variables* are the file's [vars]."""
    spec, hide = task.spec, planner.hiding(task)
    return TaskDetails(
        name=spec.name,
        entry=spec.entry,
        line=spec.line,
        state=NAMES[type(task.phase)],
        flags=flags(deck, task),
        command=planner.command(task),
        launch=planner.launcher(task),
        env=_env(spec, hide),
        cwd=spec.cwd,
        python=spec.python,
        fingerprint=spec.fingerprint,
        round=spec.round,
        group=spec.group,
        needs=spec.needs,
        after=spec.after,
        waits_on=_waits_on(deck, task),
        needed_by=_needed_by(deck, task),
        gpus=task.begun_spec.resources.gpus,
        outputs=spec.outputs,
        metrics=spec.extras.metrics,
        params=spec.params,
        tags=spec.tags,
        priority=task.priority,
        effective_priority=task.effective,
        retries_used=task.retries_used,
        retries=spec.policy.retries,
        retried_fresh=task.again.fresh,
        retried_env=masked_env(task.again.env),
        retried_not_on=tuple(str(index_of.get(uuid, uuid)) for uuid in task.again.not_on),
        waits_for=tuple(obstacle.text.removeprefix("waits for ") for obstacle in explain(deck, task, at, hour)),
        running=_running(deck, task, paths, index_of, at, hide),
        attempts=_attempts(deck, task, paths, index_of, hide),
        gpu_memory=memory_in_words(deck, task),
        image=spec.extras.image,
        container=planner.container(spec),
        anew=planner.command(task, spec),
        resume=planner.going_on(task),
        on_terminal=is_on_terminal(spec.work.command),
        given=dict(spec.given),
        vars=_variables(spec, variables, hide),
    )


def _variables(spec: TaskSpec, variables: Mapping[str, str], hide: Callable[[str], str]) -> Mapping[str, str]:
    own = spec.values
    told = masked_env(tuple((name, value) for name, value in variables.items() if name not in own)).items()
    return {name: hide(without_markers(value or "")) for name, value in told}


def _env(spec: TaskSpec, hide: Callable[[str], str]) -> Mapping[str, str | None]:
    """Without what every attempt gets, and what tells runs of `gpudeck run` apart."""
    told = masked_env(spec.work.env).items()
    return {name: value and hide(without_markers(value)) for name, value in told if name not in _OURS}


def _running(
    deck: Deck,
    task: Task,
    paths: Callable[[str, int], AttemptPaths],
    index_of: Mapping[str, int],
    at: float,
    hide: Callable[[str], str],
) -> RunningDetails | None:
    attempt = task.attempt()
    if attempt is None:
        return None
    files, spec = paths(task.name, attempt.number), task.spec.on_card(attempt.card_mib)
    return RunningDetails(
        number=attempt.number,
        pid=attempt.pid,
        gpus=indices(attempt.gpus, index_of),
        started=attempt.wall,
        elapsed_s=max(0.0, at - attempt.at),
        expected_s=deck.forecast_s(task),
        rung=attempt.rung,
        log=files.out,
        err=files.err,
        json=files.json,
        rung_changes=tuple(map(hide, rung_changes(spec, attempt.rung, attempt.timeout_rung))),
        timeout_rung=attempt.timeout_rung,
        gpu_profile=tuple(map(hide, profile_changes(task.spec, attempt.card_mib))),
        mixed=mixed_in_words(deck.models(attempt.gpus)),
        job=attempt.job,
        nodes=attempt.nodes,
        script=files.script if attempt.where else "",
        pending=not attempt.began,
        pending_why=pending_in_words(attempt),
    )


def _attempts(
    deck: Deck,
    task: Task,
    paths: Callable[[str, int], AttemptPaths],
    index_of: Mapping[str, int],
    hide: Callable[[str], str],
) -> tuple[AttemptDetails, ...]:
    found: list[AttemptDetails] = []
    for name, ended in _ended(deck, task):
        files, spec = paths(name, ended.number), task.spec.on_card(ended.card_mib)
        found.append(
            AttemptDetails(
                number=ended.number,
                done_as="" if name == task.name else name,
                reason=describe(ended.outcome),
                kind=ended.outcome.reason,
                exit_code=ended.outcome.exit_code,
                gpus=indices(ended.gpus, index_of),
                duration_s=ended.duration_s,
                peak_mib=ended.peak_mib,
                log=files.out,
                err=files.err,
                json=files.json,
                rung=ended.rung,
                rung_changes=tuple(map(hide, rung_changes(spec, ended.rung, ended.timeout_rung))),
                timeout_rung=ended.timeout_rung,
                gpu_profile=tuple(map(hide, profile_changes(task.spec, ended.card_mib))),
                job=ended.job,
                nodes=ended.nodes,
                script=files.script if ended.job else "",
                hint=hint_of(ended.outcome, task.spec),
            )
        )
    return tuple(found)


def _ended(deck: Deck, task: Task) -> list[tuple[str, Ended]]:
    """Its own, and last, in the place of its own with that number, the one that did its work under another name."""
    name, number = task.made_by
    other = deck.by_name.get(name)
    known = deck.past.ended.get(name, ()) if other is None else other.ended
    did = [(name, each) for each in known if each.number == number and name != task.name]
    return [*((task.name, each) for each in task.ended if not did or each.number != number), *did]


def _waits_on(deck: Deck, task: Task) -> tuple[str, ...]:
    """In file order."""
    indexes = {index for gate in task.gates if gate.kind in ("needs", "after") for index in gate.members}
    return tuple(deck.tasks[index].name for index in sorted(indexes))


def _needed_by(deck: Deck, task: Task) -> tuple[str, ...]:
    """Tasks that wait for this one by name."""
    names = {
        deck.tasks[index].name for gate in task.feeds if gate.kind in ("needs", "after") for index in gate.dependents
    }
    return tuple(sorted(names))


_MOST_WORDS = 500
"""Of commands that are longer than this the words are not compared."""


def rung_changes(spec: TaskSpec, rung: int, timeout_rung: int = 0) -> tuple[str, ...]:
    """What differs from the task as written, as the task file says now: options with their values, `NAME=value`, other
    words after those in whose place they stand, keys with their values; secrets masked. Empty for rung 0 and for one
    that the ladder does not have."""
    rung = rung if rung <= len(spec.ladder) else 0
    timeout_rung = timeout_rung if timeout_rung <= len(spec.on_timeout) else 0
    return (
        *changes(spec.work, spec.on_rung(rung, timeout_rung)),
        *_keys_changed(_asked(spec), _asked(spec.asking(rung, timeout_rung))),
    )


def _asked(spec: TaskSpec) -> dict[str, str]:
    """What its rungs may change of what it asks for, by key."""
    asked, timeout_s = spec.resources, spec.policy.timeout_s
    sizes = {"gpu_memory": asked.gpu_memory_mib, "memory": asked.memory_mib}
    return {
        "gpus": str(asked.gpus),
        **{key: mib_text(size) if isinstance(size, int) else size or "" for key, size in sizes.items()},
        "timeout": duration(timeout_s),
        **{f"slurm.{key}": _option_text(key, value) for key, value in spec.extras.slurm},
    }


def _option_text(key: str, value: object) -> str:
    if isinstance(value, (int, float)) and key in ("time", "mem"):
        return duration(value) if key == "time" else mib_text(value)
    return without_markers(as_text(value))


def _keys_changed(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    changed = [(key, old.get(key, ""), value) for key, value in new.items() if old.get(key) != value]
    gone = [f"without {key}" for key in old if key not in new]
    return [f"{key} {before} → {value}" if before else f"{key} {value}" for key, before, value in changed] + gone


def profile_changes(spec: TaskSpec, total_mib: int) -> tuple[str, ...]:
    """The same of the [[gpu_profile]] for cards of this size, after its name; empty without one."""
    card = spec.card(total_mib)
    return () if card is None else (card.profile, *changes(spec.work, card.work))


def changes(before: Work, after: Work) -> tuple[str, ...]:
    """What differs between what is executed, in words and variables."""
    return (*_words(_split(before), _split(after)), *_env_changes(before, after))


def _words(before: Sequence[str], after: Sequence[str]) -> list[str]:
    if max(len(before), len(after)) > _MOST_WORDS:
        return []
    found: list[str] = []
    for kind, first, last, begin, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "delete":
            found.append(f"without {' '.join(before[first:last])}")
        elif kind != "equal":
            names_it = begin > 0 and after[begin - 1].startswith("-") and not after[begin].startswith("-")
            named = names_it or kind == "insert" or after[begin].startswith("-") or "=" in after[begin]
            instead = "" if named else f"{' '.join(before[first:last])} → "
            found.append(instead + " ".join(after[begin - names_it : end]))
    return found


def _env_changes(before: Work, after: Work) -> list[str]:
    old, new = masked_env(before.env), masked_env(after.env)
    changed = [(name, value) for name, value in new.items() if name not in old or old[name] != value]
    return [f"{name} is unset" if value is None else f"{name}={without_markers(value)}" for name, value in changed]


def _split(work: Work) -> list[str]:
    command = masked_command(work.command)
    if isinstance(command, str):
        try:
            command = shlex.split(command)
        except ValueError:
            command = command.split()
    return [without_markers(word) for word in command]
