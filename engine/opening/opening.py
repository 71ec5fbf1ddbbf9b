"""Opens a deck: task file, state folder, lock, journal, GPUs; and restores what earlier engines did."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from queue import SimpleQueue

from ..adapters import host
from ..adapters.journal.journal import SqliteJournal
from ..adapters.processes import record
from ..adapters.state.folder import StateDir, load_environment, open_state_dir, save_environment
from ..adapters.state.home import moved, settle_in
from ..adapters.state.lock import DeckLock, this_machine
from ..attempt.environment import base_environment
from ..core.apply import replay
from ..core.build import build
from ..core.deck import Deck
from ..core.events import AttemptStarting, Fact
from ..core.phases import FINAL
from ..core.recorded import Recorded, recorded
from ..core.spec import DeckFile, DeckSettings, TaskSpec
from ..errors import DeckError, EngineUnavailableError, TaskFileError
from ..logs.files import LogFolder
from ..taskfile.load import load_settings
from ..taskfile.options import RunOptions
from ..taskfile.settings import stem_of
from . import kept, taken
from .backends import may_have_jobs, passed_over_nodelists, refuse_elsewhere, require_cluster, tokens_recorded
from .box_gpus import BoxGpus, gpus_for
from .core_gpus import core_gpus
from .deck_file import check_before_start, check_first_start, load_for
from .former_states import former_states, note_state
from .left_behind import Unsettled, refuse_strangers, sweep_records, unsettled
from .left_out import stand_in_for_left_out, with_newcomers, with_running
from .other_states import OtherStates
from .own_state import find_own_state, owner_of, refuse_other
from .purpose import BEGINS, Purpose
from .regained import has_forgotten, regain
from .run_options import encode, held, holding
from .settings_despite import state_dir_said
from .submitted import refuse_submitted
from .visible import limiting


@dataclass(slots=True)
class OpenDeck:
    """A deck that this process holds."""

    file: DeckFile
    state: StateDir
    lock: DeckLock
    journal: SqliteJournal
    gpus: BoxGpus
    deck: Deck
    logs: LogFolder
    environment: Mapping[str, str]
    starts: Mapping[str, AttemptStarting]
    """Attempts of earlier engines that have not ended, by token."""
    unsettled: Sequence[Unsettled]
    """Ends whose effects may not have been done."""
    same_boot: bool = True
    same_namespace: bool = True
    warnings: list[str] = field(default_factory=list[str])
    options: str = ""
    """The run options that hold, encoded."""
    held: str = ""
    """What to say of those that were said by an earlier start."""


def open_deck(
    path: str,
    given: RunOptions,
    environ: Mapping[str, str],
    *,
    as_root: bool,
    takeover: bool,
    purpose: Purpose = "headless",
    service: bool = False,
) -> OpenDeck:
    """Everything up to the first start, checked before the first start. Raises DeckError.

    *service*: systemd's own environment is not what tasks want. To stop what runs, the task file, which may be gone or
    broken, is read as the deck took it last.
    """
    content = _taken(path, given) if purpose == "stop" else None
    settings = load_settings(path, given, content=content)
    stem = stem_of(path, given)
    begins = not os.path.exists(os.path.join(settings.state_dir, stem))
    former = former_states(path, settings, given) if purpose != "stop" and not takeover else []
    if begins:
        check_first_start(path, given, settings, environ)
    state = open_state_dir(path, settings.state_dir, stem, as_root=as_root, takeover=takeover)
    refuse_other(path, state.path, given)
    lock = DeckLock.acquire(state.path, unfinished=state.unfinished(), takeover=takeover)
    with contextlib.ExitStack() as undo:
        undo.callback(lock.release)
        refuse_other(path, state.path, given)  # whoever had it until now has noted whose it is
        journal = SqliteJournal.open(state.db)
        undo.callback(journal.close)
        facts = list(journal.load())
        original, moved_from = settle_in(state.path, os.path.dirname(os.path.abspath(path)), owner_of(path, given))
        if original:
            _leave_to_the_original(state)
        told = recorded(facts)
        regained = ""
        jobs = may_have_jobs(settings, told)
        if journal.damage or jobs or has_forgotten(tokens_recorded(settings, state.attempts), told):
            results_too = bool(journal.damage) or (jobs and takeover)
            said = encode(given)
            regained = _regain(journal, facts, told, settings, state, lock, results_too=results_too, options=said)
            told = recorded(facts)
        unfinished = told.unfinished
        options = holding(purpose, told, given)
        environment, other = _run_environment(state, keep=unfinished, environ=environ, service=service)
        try:
            gpus, file = _read(path, options, facts, told, environment, environ, content)
        except TaskFileError:
            if unfinished or options.set == given.set:
                raise
            options = replace(options, set=given.set)  # the run that it was said for is over, and the file is another
            gpus, file = _read(path, options, facts, told, environment, environ, content)
        before = lambda: _taken_before(path, options, state, gpus, facts, told, environment)  # noqa: E731
        if file.selected is not None and not unfinished and purpose not in BEGINS:
            newer = with_newcomers(options, file, before())
            if newer != options:
                options = newer
                gpus, file = _read(path, options, facts, told, environment, environ, content)
        if content is None:
            check_before_start(file, gpus, environment)
        refuse_elsewhere(file, told)
        refuse_submitted(file, told, insists=given.backend == "local")
        require_cluster(file.settings, environment)
        _refuse_silent_cpu(file.settings, gpus, told)
        opened = _restore(
            file,
            state,
            lock,
            journal,
            gpus,
            facts,
            told,
            environment,
            takeover=takeover,
            copy=bool(original),
            moved_from=moved_from,
            before=before,
        )
        copied = f"this deck is a copy of the one in {original}: what ran there is left alone and runs here again"
        elsewhere = ""
        if begins and former:
            elsewhere = f"this deck begins anew in {state.path}: its state of before lies in {former[0].path}"
        opened.held = held(options, given, unfinished=unfinished)
        opened.warnings += filter(None, [elsewhere, copied * bool(original), regained, other, opened.held])
        left = [task.spec for task in opened.deck.tasks if task.selected and not isinstance(task.phase, FINAL)]
        opened.warnings += OtherStates(file).at_work(left)
        opened.options = encode(options)
        note_state(path, file.settings, stem, state)
        with contextlib.suppress(OSError):
            kept.keep_begun(state.path, opened.deck)
            taken.keep(state.path, file)
        undo.pop_all()
    return opened


def _taken(path: str, given: RunOptions) -> bytes | None:
    """The task file as the deck took it last; None: nobody knows."""
    state = find_own_state(path, state_dir_said(path, given), given)
    return None if state is None else taken.load(state.path)


def _read(
    path: str,
    options: RunOptions,
    facts: Sequence[Fact],
    told: Recorded,
    environment: Mapping[str, str],
    environ: Mapping[str, str],
    content: bytes | None,
) -> tuple[BoxGpus, DeckFile]:
    limits = limiting(environ, environment)
    gpus = gpus_for(path, options, load_settings(path, options, content=content), limits, environment)
    return gpus, with_running(load_for(path, options, gpus, facts, told, environment, content=content), told)


def _taken_before(
    path: str,
    options: RunOptions,
    state: StateDir,
    gpus: BoxGpus,
    facts: Sequence[Fact],
    told: Recorded,
    environment: Mapping[str, str],
) -> Mapping[str, TaskSpec]:
    """Tasks by name, of the file as the deck has taken it last; none where that cannot be read any more."""
    content = taken.load(state.path)
    if content is None:
        return {}
    with contextlib.suppress(DeckError):
        file = load_for(path, replace(options, only=(), exclude=()), gpus, facts, told, environment, content=content)
        return {spec.name: spec for spec in file.tasks}
    return {}


def _leave_to_the_original(state: StateDir) -> None:
    """A folder that was copied while its deck ran: what runs is the original's."""
    for name in os.listdir(state.attempts):
        record.drop(os.path.join(state.attempts, name))


def _where_outputs_are(facts: Iterable[Fact], file: DeckFile, moved_from: Sequence[str]) -> Iterator[Fact]:
    """What attempts were to make, where it is by now: a deck that was moved has moved it along."""
    named = {spec.name: spec.outputs for spec in file.tasks}
    folder = os.path.dirname(file.path)
    for fact in facts:
        if isinstance(fact, AttemptStarting) and fact.outputs != named.get(fact.task):
            yield replace(fact, outputs=tuple(moved(path, moved_from, folder) for path in fact.outputs))
        else:
            yield fact


def _regain(
    journal: SqliteJournal,
    facts: list[Fact],
    told: Recorded,
    settings: DeckSettings,
    state: StateDir,
    lock: DeckLock,
    *,
    results_too: bool,
    options: str,
) -> str:
    """Add to *facts*, and to the journal, what a damaged or missing one does not tell and other files do; returns what
    to say."""
    boot_id = lock.previous.machine.boot_id if lock.previous is not None else host.boot_id()
    found = regain(
        settings.log_dir,
        tokens_recorded(settings, state.attempts),
        settings.name,
        told,
        boot_id=boot_id,
        results_too=results_too,
        options=options,
    )
    if not found.facts:
        return ""
    written: SimpleQueue[Exception | None] = SimpleQueue()
    journal.submit(found.facts, durable=True, done=written.put)
    error = written.get()
    if error is not None:
        raise EngineUnavailableError(f"{state.db} cannot be written: {error}") from error
    facts += found.facts
    return str(found)


def _restore(
    file: DeckFile,
    state: StateDir,
    lock: DeckLock,
    journal: SqliteJournal,
    gpus: BoxGpus,
    facts: Sequence[Fact],
    told: Recorded,
    environment: Mapping[str, str],
    *,
    takeover: bool,
    copy: bool,
    moved_from: Sequence[str],
    before: Callable[[], Mapping[str, TaskSpec]],
) -> OpenDeck:
    settings = file.settings
    outside = core_gpus(settings, gpus.outside)
    deck = build(file, gpus=core_gpus(settings, gpus.chosen), outside=outside, cores=gpus.cores, on_cpu=not gpus.chosen)
    deck.memory_total_mib = host.mem_total_mib()
    kept.take_back(deck, kept.load(state.path, told.lasting_tokens), told, before)
    starts = replay(deck, _where_outputs_are(facts, file, moved_from) if moved_from else facts)
    for gpu in deck.present_gpus.values():
        gpu.forget_neighbours()
    same_boot, same_namespace = _where_it_ran(deck, lock, takeover=takeover, copy=copy)
    if same_boot:
        refuse_strangers(state.attempts, file, told)
    _make_log_dir(settings.log_dir)
    folder = os.path.dirname(file.path)
    former = state.former_log_dirs(folder, settings.log_dir)
    logs = LogFolder(settings.log_dir, (spec.name for spec in file.tasks), former)
    state.note_log_dir(folder, settings.log_dir)
    for task in deck.tasks:
        if not task.attempts or journal.damage:
            task.attempts = max(task.attempts, logs.highest(task.name))
    stand_in_for_left_out(deck, logs, file)
    ends = unsettled(tokens_recorded(settings, state.attempts), told)
    sweep_records(state.attempts, [*starts, *(start.token for _, start in ends)])
    warnings = [*file.warnings, *passed_over_nodelists(file)]
    warnings += filter(None, (state.warning, journal.damage, _on_cpu_warning(deck)))
    return OpenDeck(
        file,
        state,
        lock,
        journal,
        gpus,
        deck,
        logs,
        environment,
        starts,
        ends,
        same_boot=same_boot,
        same_namespace=same_namespace,
        warnings=warnings,
    )


def _where_it_ran(deck: Deck, lock: DeckLock, *, takeover: bool, copy: bool) -> tuple[bool, bool]:
    """Whether what earlier engines started may be there still: at this boot of this box, and in our pid namespace."""
    before = lock.previous
    pid_ns = this_machine().pid_ns
    same_namespace = before is None or before.machine.pid_ns == pid_ns
    for task in deck.active.values():
        attempt = task.attempt()
        if attempt is not None and attempt.pid_ns:
            same_namespace = same_namespace and attempt.pid_ns == pid_ns
    # A journal that was lost does not tell of which boot the records are that lie about.
    boot_id = deck.run.boot_id or (before.machine.boot_id if before is not None else "")
    same_boot = boot_id in ("", host.boot_id())
    # A container that was restarted is another pid namespace of the same boot: only the user knows that it is gone.
    same_boot = same_boot and (same_namespace or not takeover) and not copy
    return same_boot, same_namespace


def _refuse_silent_cpu(settings: DeckSettings, gpus: BoxGpus, told: Recorded) -> None:
    """A deck that has run on GPUs does not quietly go on, a hundred times slower, on the CPU."""
    if settings.backend == "slurm":
        return
    if not gpus.chosen and settings.gpus != "none" and settings.no_gpu == "auto" and told.ran_on_gpus:
        raise EngineUnavailableError(
            "this deck has run on GPUs and none is found now: mend the driver, or run it on the CPU with --gpus none"
        )


def _make_log_dir(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise EngineUnavailableError(f"log_dir {path} cannot be made: {error.strerror}") from error
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise EngineUnavailableError(f"log_dir {path} cannot be written: no permission")


def _on_cpu_warning(deck: Deck) -> str:
    wanting = sum(task.selected and task.spec.resources.gpus != 0 for task in deck.tasks)
    if not deck.on_cpu or not wanting or deck.settings.gpus == "none":
        return ""
    return f"no NVIDIA GPU on this box: {wanting} GPU tasks run on the CPU, {deck.on_cpu_slots} at once"


_TELLING = ("VIRTUAL_ENV", "CONDA_PREFIX", "PATH")


def _run_environment(
    state: StateDir, *, keep: bool, environ: Mapping[str, str], service: bool = False
) -> tuple[Mapping[str, str], str]:
    """A run keeps the environment that it was started with, whichever engine goes on with it.

    *keep*: an unfinished run goes on. A *service* has no environment of its own that would be of use: it takes what is
    kept. Returns it, and a warning where the caller's differs in what decides which programs run.
    """
    fresh = base_environment(environ)
    kept = load_environment(state.path) if keep or service else None
    if kept is None:
        save_environment(state.path, fresh)
        return fresh, ""
    other = [name for name in _TELLING if kept.get(name) != fresh.get(name)]
    other += [name for name in ("CUDA_VISIBLE_DEVICES",) if name in kept and name not in fresh]
    if service or not other:
        return kept, ""
    names = ", ".join(other)
    return (
        kept,
        f"tasks keep the environment of the run's start; yours has another {names}: see `gpudeck env --refresh`",
    )
