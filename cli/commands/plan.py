"""`gpudeck plan`: what would run where, in which order, and when: the engine's decisions on a simulated clock; of a
deck on Slurm what each job asks for."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from math import inf, nextafter

from ...engine.adapters import host
from ...engine.adapters.slurm.cluster import partition_names
from ...engine.adapters.slurm.jobfiles import control_folder
from ...engine.adapters.slurm.script import script
from ...engine.attempts.outputs import is_done
from ...engine.attempts.secrets import mask, secrets_in
from ...engine.client.files import task_file
from ...engine.command import Command
from ...engine.core.budget import spent_budget
from ...engine.core.deck import Deck, Task
from ...engine.core.devices import mixed_in_words
from ...engine.core.events import Outcome
from ...engine.core.fit import memory_in_words, room_missing
from ...engine.core.gone import doing
from ...engine.core.marks import is_of_other_work
from ...engine.core.phases import FINAL, NAMES, Cached, Cancelled, Failed, Phase, Pruned, Succeeded
from ...engine.core.simulate import Ahead, Planned, simulate
from ...engine.core.spec import TaskSpec
from ...engine.decks.cluster import submitted, submitted_note
from ...engine.decks.gpus import BoxGpus
from ...engine.decks.offline import OfflineDeck, open_as_start
from ...engine.decks.other_decks import OtherDecks
from ...engine.disk_watch import folders_of, free_mib
from ...engine.errors import EngineUnavailableError, UsageError
from ...engine.submit.jobs import waits_of
from ...engine.submit.target import Target
from ...engine.taskfile.fit import check_fit
from ...engine.taskfile.problems import BadValueError, did_you_mean
from ...engine.taskfile.units import clock, duration_s
from ...engine.text import columns_of, duration, names_text, plural
from . import plan_prune


def run(command: Command) -> int:
    """Print the plan: of an unfinished run under what that was started with. Nothing is started, locked or changed.
    Raises DeckError."""
    found = open_as_start(task_file(command), command.options(), os.environ)
    as_json, file, deck, gpus = command.flag("json"), found.file, found.deck, found.loaded.gpus
    settings, unfinished = file.settings, found.unfinished
    until: str | None = command.given.get("until")
    if command.flag("prune"):
        if until is not None:
            raise UsageError("--prune looks back, --until ahead: give one of them")
        return plan_prune.show(found, as_json=as_json)
    if settings.backend == "slurm":
        if until is not None:
            raise UsageError("--until: when jobs of a cluster begin is for Slurm to say")
        return _plan_slurm(Target(found), as_json=as_json)
    check_fit(file, gpus.fitting())
    takes = ("failed", "changed", "stale") if settings.skip_existing else ("all",)
    others = OtherDecks(file)
    known = [_length_s(deck, task) for task in deck.tasks]  # before the simulation's own ends teach anything
    settled = {
        task.name: is_of_other_work(task) or not isinstance(task.phase, _SUCCESSES)
        for task in deck.tasks
        if isinstance(task.phase, FINAL)
    }
    running = deck.active.values()
    settled |= {task.name: True for task in running if task.begun_spec.fingerprint != task.spec.fingerprint}
    memory = [memory_in_words(deck, task) for task in deck.tasks]
    renamed = {task.name: other.name for task in deck.tasks if (other := doing(deck, task)) is not None}
    now = host.SystemClock().now()
    until_s = None if until is None else seconds_until(until, datetime.fromtimestamp(now.wall_s))
    deck.disk_free_mib = free_mib(folders_of(file))
    spent, room = spent_budget(deck, now.boot_s), room_missing(deck)
    planned = simulate(
        deck,
        lambda task: known[task.index],
        takes=takes,
        done=lambda task: is_done(deck, task, found.logs, others.at),
        memory_mib=host.mem_available_mib(),
        at=now.boot_s,
        wall=now.wall_s,
        ahead=[
            Ahead(task, token, known[task.index], _ended(found, token)) for token, task in list(deck.active.items())
        ],
        goes_on=unfinished,
        restarted=found.restarted,
    )
    rows = _rows(deck, planned, memory, renamed)
    last_s = max((item.end_s for item in planned), default=0.0)
    barred = (_barred(deck) if unfinished else "") or spent
    if not barred and any(state == _LEFT for *_, state, _ in rows):
        then = spent_budget(deck, now.boot_s + last_s)
        barred = f"by then {then}" if then else ""
    runs = sum(item.ahead for item in planned)
    planned = [item for item in planned if not item.ahead]
    if as_json:
        print(json.dumps([dict(zip(_COLUMNS, row, strict=True)) for row in rows], indent=2))
        return 0
    given = submitted_note(found.submitted) if found.submitted else ""
    for line in [*file.warnings, *filter(None, [found.damage, given]), *file.later]:
        print(f"warning: {line}")
    bars = filter(None, [barred, _without(room)])
    told = [*_table(rows, planned, gpus, runs), *bars, *_left_to_you(deck, planned, settled)]
    if until is not None and until_s is not None:
        told.append(_by(rows, until_s, until))
    print("\n".join(told))
    return 0


def seconds_until(text: str, now: datetime) -> float:
    """From *now* until "08:00", the next time that it is so late; or "10h". Raises UsageError."""
    wall = now.timestamp()
    try:
        return clock(text).next(nextafter(wall, inf)) - wall if ":" in text else duration_s(text)
    except BadValueError:
        raise UsageError(f'--until wants a time such as "08:00", or a duration such as "10h", got {text!r}') from None


def _by(rows: Sequence[Row], until_s: float, text: str) -> str:
    """What will be done by then."""
    meant = [(name, ends, state) for name, _, _, ends, _, state, _ in rows if state != "left out"]
    late = [name for name, ends, state in meant if state != "done earlier" and (ends is None or ends > until_s)]
    names = dict.fromkeys(name for name, _, _ in meant)
    missing = [name for name in names if name in set(late)]
    rest = f"; not {names_text(missing)}" if missing else ""
    when = f"by {text}" if ":" in text else f"after {text}"
    return f"{when}: {len(names) - len(missing)} of {len(names)} tasks will be done{rest}"


_SUCCESSES = (Succeeded, Cached)
_LEFT = "would not start"

_COLUMNS = ("task", "gpus", "starts_s", "ends_s", "guessed", "state", "gpus_note")
Row = tuple[str, str, float | None, float | None, bool, str, str]


def _ended(found: OfflineDeck, token: str) -> Outcome | None:
    """How an attempt has ended that the deck takes for running."""
    match found.standing(token):
        case "ended":
            end = found.end_of(token)
            return Outcome("ok" if end == "0" else "exit", int(end) if end.isdecimal() else 1)
        case "gone":
            return Outcome("lost")
        case _:
            return None


def _barred(deck: Deck) -> str:
    """Why an unfinished run starts nothing more."""
    if deck.run.halted:
        return f"{deck.run.halted} failed and has halted the run: `gpudeck unpause` goes on with it"
    return f"the deck is paused ({deck.paused}): `gpudeck unpause` goes on" if deck.paused else ""


def _without(room: str) -> str:
    return f"{room}: nothing starts before there is room; the times are as if there was" if room else ""


def _length_s(deck: Deck, task: Task) -> float | None:
    """By what has succeeded before: the very same work, else its entry."""
    known = deck.learned.seconds(task.spec.fingerprint)
    return task.entry.typical_s if known is None else known


def _rows(deck: Deck, planned: Sequence[Planned], memory: Sequence[str], renamed: Mapping[str, str]) -> list[Row]:
    """*renamed*: by tasks that run under another name, that name."""
    index = {gpu.uuid: str(gpu.index) for gpu in deck.gpus.values()}
    rows: list[Row] = []
    for item in planned:
        gpus = ",".join(index.get(uuid, uuid) for uuid in item.gpus) or "cpu"  # the box may have lost one
        asks = "; ".join(filter(None, [memory[deck.by_name[item.task].index], mixed_in_words(deck.models(item.gpus))]))
        start, state = (None, "runs already") if item.ahead else (item.start_s, "runs")
        if deck.by_name[item.task].gone:
            state += "; the file no longer has it"
        rows.append((item.task, gpus, start, item.end_s, item.guessed, state, asks))
    started = {item.task for item in planned}
    for task in deck.tasks:
        if task.name not in started and not task.gone:
            state = f"runs already as {renamed[task.name]}" if task.name in renamed else _state(task, task.phase)
            rows.append((task.name, "", None, None, False, state, memory[task.index]))
    return rows


def _state(task: Task, phase: Phase) -> str:
    if not task.selected:
        return "left out"
    if isinstance(phase, (Failed, Cancelled, Pruned)):
        return "failed and stays so" if isinstance(phase, Failed) else NAMES[type(phase)]
    if isinstance(phase, _SUCCESSES):
        return "done earlier"
    return f"{_LEFT}: held" if task.held else _LEFT


def _table(rows: Sequence[Row], planned: Sequence[Planned], gpus: BoxGpus, runs: int) -> list[str]:
    """*planned*: what would start. *runs*: how many run already."""
    cells = [("task", f"{'gpu':>7}", f"{'starts':>9}", f"{'ends':>9}", "state")]
    for name, where, starts, ends, guessed, state, asks in rows:
        begin = "" if starts is None else f"+{duration(starts)}"
        end = "" if ends is None else f"{'~' if guessed else '+'}{duration(ends)}"
        cells.append((name, where, begin, end, f"{state}, {asks}" if asks and starts is not None else state))
    lines = columns_of(cells, right=(1, 2, 3))
    guesses = sum(item.guessed for item in planned)
    place = "CPU slots" if not gpus.chosen else f"{len(gpus.chosen)} {'simulated ' if gpus.simulated else ''}GPUs"
    also = f"; {plural(runs, 'task')} run{'s' * (runs == 1)} already" if runs else ""
    if not planned:
        return [*lines, "", f"nothing would start{also}" if runs else "nothing would run"]
    last = max(ends for _, _, _, ends, *_ in rows if ends is not None)
    lines.append("")
    starting, tasks = len({item.task for item in planned}), len({name for name, *_ in rows})
    lines.append(
        f"{starting} of {tasks} tasks would run on {place}, over after {'~' * bool(guesses)}{duration(last)}{also}"
    )
    if guesses:
        lines.append(
            f"~ {guesses} of unknown length are taken as an hour each, or as their timeout where that is shorter"
        )
    return lines


def _left_to_you(deck: Deck, planned: Sequence[Planned], settled: Mapping[str, bool]) -> list[str]:
    """What only a headless start runs. *settled*: tasks that have ended, and whether as failed or of other work;
    with them those that run, if the file has changed since."""
    rerun = deck.settings.rerun_stale
    again = [item.task for item in planned if item.task in settled and (settled[item.task] or not rerun)]
    if not again:
        return []
    which = "it" if len(again) == 1 else "them"
    stale = any(not settled[name] for name in again)
    more = "" if rerun or not stale else "; with rerun_stale = true in [deck] stale ones run again by themselves"
    return [
        f"this is `gpudeck --headless`; with a screen {names_text(again, 4)} would wait for you: "
        f"`gpudeck retry` runs {which} again{more}"
    ]


TOKEN = "0" * 24
"""Where a start puts one of its own."""


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A task, and what becomes of it."""

    task: str
    state: str
    """ "runs", "under way", "done earlier" or "left out"."""
    attempt: int = 0
    script: str = ""
    kept: str = ""
    """Where a start keeps the script."""
    after_ok: tuple[str, ...] = ()
    after_end: tuple[str, ...] = ()


def _plan_slurm(target: Target, *, as_json: bool) -> int:
    """Print what each job asks for and runs, and of a single one its whole script, as an engine would submit it. It
    needs no Slurm. Raises DeckError."""
    try:
        jobs = planned(target)
    except OSError as error:
        raise EngineUnavailableError(f"{error.filename}: {error.strerror}") from error
    if as_json:
        print(json.dumps([asdict(job) for job in jobs], indent=2))
        return 0
    for line in [*target.warnings, *target.file.later, *unknown_partitions(target.file.chosen)]:
        print(f"warning: {line}")
    print("\n".join(_text(jobs)))
    return 0


def planned(target: Target) -> list[PlannedJob]:
    """All tasks, in file order. The values of secret variables are not shown. Raises OSError."""
    done = target.done()
    taken_up = {*target.journal.lasting, *(each.task for each in submitted(target.file, target.journal))}
    waits = waits_of(target.file.chosen, done=done)
    jobs: list[PlannedJob] = []
    for spec in target.file.tasks:
        if spec.name not in waits:
            jobs.append(PlannedJob(spec.name, "left out"))
        elif spec.name in taken_up:
            jobs.append(PlannedJob(spec.name, "under way"))
        elif spec.name in done:
            jobs.append(PlannedJob(spec.name, "done earlier"))
        else:
            attempt = target.next_attempt(spec.name)
            plan, order = target.planned(spec.name, attempt, TOKEN)
            text = script(order, control_folder(target.logs.dir))
            shown = mask(text, [value for value in secrets_in(order.env) if value != TOKEN])
            after = waits[spec.name]
            jobs.append(PlannedJob(spec.name, "runs", attempt, shown, plan.paths.script, after.ok, after.ended))
    return jobs


def unknown_partitions(tasks: Iterable[TaskSpec]) -> Iterator[str]:
    """Those that tasks name, a line each, where Slurm is here and answers at once."""
    asked = [str(dict(spec.extras.slurm).get("partition", "")) for spec in tasks]
    names = list(dict.fromkeys(name for text in asked for name in text.split(",") if name))
    known = partition_names(os.environ) if names else []
    for name in names:
        if known and name not in known:
            hint = did_you_mean(name, known)
            yield f"partition {name} is not known to Slurm here" + (f": {hint}" if hint else "")


_OTHERS = ("under way", "done earlier", "left out")


def _text(jobs: Sequence[PlannedJob]) -> list[str]:
    running = [job for job in jobs if job.state == "runs"]
    more = [f"{count} {state}" for state in _OTHERS if (count := sum(job.state == state for job in jobs))]
    if not running:
        return [", ".join(["nothing would be submitted", *more])]
    lines: list[str] = []
    for job in running:
        lines += [
            "",
            f"==> {job.task}, attempt {job.attempt}{_after(job)}: {job.kept} <==",
            job.script.rstrip("\n") if len(running) == 1 else _gist(job.script),
        ]
    if len(running) > 1:
        lines += ["", "The whole script of one, with its environment and the wrapper: gpudeck plan --only TASK"]
    return [*lines[1:], "", ", ".join([f"{len(running)} of {len(jobs)} tasks would be submitted", *more])]


def _gist(script: str) -> str:
    """What it asks Slurm for, and its command."""
    asked = [line for line in script.partition("\n\n")[0].splitlines() if line.startswith("#SBATCH")]
    return "\n".join([*asked, script.partition("\ngd_argv=(")[2].partition(")\ngd_environment() {")[0]])


def _after(job: PlannedJob) -> str:
    names = [*job.after_ok, *job.after_end]
    return f", after {names_text(names, 3)}" if names else ""
