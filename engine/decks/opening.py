"""Opens a deck for an engine: locked, its journal recovered where it was lost, loaded, adopted from earlier engines."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from queue import SimpleQueue

from ..adapters import host
from ..adapters.journal.journal import SqliteJournal
from ..adapters.processes import record
from ..adapters.state.folder import TELLING, StateDir, open_state_dir, save_environment
from ..adapters.state.home import settle_in
from ..adapters.state.lock import DeckLock, this_machine
from ..attempts.environment import base_environment
from ..core.deck import Deck
from ..core.events import AttemptStarting
from ..core.phases import FINAL
from ..core.recorded import recorded
from ..core.spec import DeckFile, DeckSettings
from ..errors import EngineUnavailableError, TaskFileError
from ..logs.files import LogFolder
from ..ports import GpuProbe
from ..snapshot.fit import check_snapshot
from ..taskfile.fit import check_environment, check_fit, refuse_later
from ..taskfile.load import load_settings
from ..taskfile.options import RunOptions
from ..taskfile.problems import check_together
from ..taskfile.settings import stem_of
from ..taskfile.source import Source, read_source
from . import handover
from .cluster import (
    may_have_jobs,
    passed_over_nodelists,
    refuse_other_backend,
    refuse_submitted,
    require_cluster,
    tokens_recorded,
)
from .gpus import BoxGpus, probe_of
from .journal_recovery import Unsettled, has_forgotten, recover, refuse_strangers, sweep_records, unsettled
from .loading import Loaded, Past, as_taken, load, past_in, restored
from .options import AS_TAKEN, Purpose, decode, encode, held, reselected
from .other_decks import OtherDecks
from .states import find_state, former_states, note_state, owner_of, refuse_other_deck


@dataclass(slots=True)
class OpenDeck:
    """A deck that this process holds."""

    file: DeckFile
    state: StateDir
    lock: DeckLock
    journal: SqliteJournal
    gpus: BoxGpus
    probe: GpuProbe
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
    chosen_by: int = 0
    """How many facts there were when the run's tasks were chosen."""
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

    *service*: systemd's own environment is not what tasks want. Where nobody has asked for the task file as it is now,
    which may be gone or broken, it is read as the deck took it last.
    """
    taken = _taken(path, given, purpose)
    source = read_source(path, taken)
    settings, stem = load_settings(source, given), stem_of(path, given)
    former = former_states(path, settings, given) if purpose != "stop" and not takeover else []
    begins = not os.path.exists(os.path.join(settings.state_dir, stem))
    # A first start that comes to nothing leaves nothing behind.
    first = _checked(load(source, given, environ, purpose=purpose)) if begins else None
    state = open_state_dir(path, settings.state_dir, stem, as_root=as_root, takeover=takeover)
    refuse_other_deck(path, state.path, given)
    lock = DeckLock.acquire(state.path, unfinished=state.unfinished(), takeover=takeover)
    with contextlib.ExitStack() as undo:
        undo.callback(lock.release)
        refuse_other_deck(path, state.path, given)  # whoever had it until now has noted whose it is
        journal = SqliteJournal.open(state.db)
        undo.callback(journal.close)
        original = _settled(path, state, given)
        past, recovered = _past(journal, state, settings, lock, takeover=takeover, options=encode(given))
        environment, other = _run_environment(past, environ, service=service)

        def loaded_from(source: Source) -> Loaded:
            found = load(source, given, environ, past=past, purpose=purpose, environment=environment)
            return _checked(found) if purpose != "stop" else found

        if first is not None and not past.facts and environment == first.environment:
            loaded, passed_over = replace(first, past=past), ""
        else:
            loaded, passed_over = _loaded(source, taken, loaded_from)
        _refuse_wrong_place(loaded, given)
        opened = _adopted(loaded, lock, journal, takeover=takeover, copy=bool(original))
        opened.held = held(loaded.options, given, unfinished=past.told.unfinished)
        if former and begins:
            opened.warnings += [f"this deck begins anew in {state.path}: its state of before lies in {former[0].path}"]
        if original:
            opened.warnings += [
                f"this deck is a copy of the one in {original}: what ran there is left alone and runs here again"
            ]
        other_tasks = ""
        if purpose == "headless" and past.told.unfinished:
            other_tasks = reselected(decode(past.told.options), loaded.options)
        opened.warnings += filter(None, [passed_over, recovered, other, opened.held, other_tasks])
        left = [task.spec for task in opened.deck.tasks if task.selected and not isinstance(task.phase, FINAL)]
        opened.warnings += OtherDecks(loaded.file).at_work(left)
        note_state(path, loaded.file.settings, stem, state)
        with contextlib.suppress(OSError):
            handover.keep_begun(state.path, opened.deck)
            handover.keep_file(state.path, loaded.file)
        undo.pop_all()
    return opened


def _taken(path: str, given: RunOptions, purpose: Purpose) -> bytes | None:
    """See `as_taken`; None, too, where the file has its state elsewhere by now."""
    state = find_state(path, given) if purpose in AS_TAKEN else None
    content = as_taken(past_in(state), purpose)
    if content is None:
        return None
    try:
        now, then = (load_settings(read_source(path, text), given).state_dir for text in (None, content))
        moved = now != then
    except TaskFileError:  # the file is gone or broken; what was taken is told of where it is read
        moved = False
    return None if moved else content


def _loaded(source: Source, taken: bytes | None, loaded_from: Callable[[Source], Loaded]) -> tuple[Loaded, str]:
    """The deck from its *source*, or, where that is the file as it was *taken* and cannot be used any more, from the
    file as it is now; and what to say of that. Raises DeckError."""
    try:
        return loaded_from(source), ""
    except TaskFileError as error:
        if taken is None or not os.path.exists(source.path):
            raise
        loaded = loaded_from(read_source(source.shown))
        passed_over = f"the task file as the deck took it last cannot be used any more ({error.problems[0]})"
        return loaded, f"{passed_over}: the deck takes it as it is now"


def check_before_start(file: DeckFile, gpus: BoxGpus, environ: Mapping[str, str]) -> None:
    """What only a start asks for: GPUs that exist, behaviour that exists, variables that the caller gives. Raises
    TaskFileError."""
    check_together(
        lambda: check_fit(file, gpus.fitting()),
        lambda: refuse_later(file),
        lambda: check_environment(file, environ),
        lambda: check_snapshot(file),
    )


def _checked(loaded: Loaded) -> Loaded:
    """Raises TaskFileError and EngineUnavailableError where it cannot be started."""
    check_before_start(loaded.file, loaded.gpus, loaded.environment)
    require_cluster(loaded.file.settings, loaded.environment)
    return loaded


def _settled(path: str, state: StateDir, given: RunOptions) -> str:
    """Note whose the state is. Returns the folder that it is a copy of, whose what runs is; "" where it is none."""
    original = settle_in(state.path, os.path.dirname(os.path.abspath(path)), owner_of(path, given))
    for name in os.listdir(state.attempts) if original else ():
        record.drop(os.path.join(state.attempts, name))
    return original


def _past(
    journal: SqliteJournal, state: StateDir, settings: DeckSettings, lock: DeckLock, *, takeover: bool, options: str
) -> tuple[Past, str]:
    """What the journal tells; what a damaged or missing one does not and other files do is added to it. Returns what
    to say of that, too."""
    facts = list(journal.load())
    told, damage = recorded(facts), journal.damage
    records = tokens_recorded(settings, state.attempts)
    jobs = may_have_jobs(settings, told)
    if not (damage or jobs or has_forgotten(records, told)):
        return Past(state, facts, told, damage), ""
    found, said = recover(
        settings.log_dir,
        records,
        settings.name,
        told,
        boot_id=lock.previous.machine.boot_id if lock.previous is not None else host.boot_id(),
        results_too=bool(damage) or (jobs and takeover),
        options=options,
    )
    if not found:
        return Past(state, facts, told, damage), ""
    written: SimpleQueue[Exception | None] = SimpleQueue()
    journal.submit(found, durable=True, done=written.put)
    error = written.get()
    if error is not None:
        raise EngineUnavailableError(f"{state.db} cannot be written: {error}") from error
    facts += found
    return Past(state, facts, recorded(facts), damage), said


def _refuse_wrong_place(loaded: Loaded, given: RunOptions) -> None:
    """Raises UsageError and EngineUnavailableError where what the deck has begun runs where this engine cannot see it,
    or where its tasks would run where they do not belong."""
    file, told = loaded.file, loaded.past.told
    refuse_other_backend(file, told)
    refuse_submitted(file, told, insists=given.backend == "local")
    require_cluster(file.settings, loaded.environment)
    _refuse_silent_cpu(file.settings, loaded.gpus, ran_on_gpus=told.ran_on_gpus)


def _adopted(loaded: Loaded, lock: DeckLock, journal: SqliteJournal, *, takeover: bool, copy: bool) -> OpenDeck:
    """The deck with what earlier engines left taken over. Raises UsageError and EngineUnavailableError."""
    file, past, state = loaded.file, loaded.past, loaded.past.state
    assert state is not None
    settings = file.settings
    _make_log_dir(settings.log_dir)
    deck, starts, logs = restored(loaded)
    deck.memory_total_mib = host.mem_total_mib()
    for gpu in deck.present_gpus.values():
        gpu.forget_neighbours()
    same_boot, same_namespace = _where_it_ran(deck, lock, takeover=takeover, copy=copy)
    if same_boot:
        refuse_strangers(state.attempts, file, past.told)
    state.note_log_dir(os.path.dirname(file.path), settings.log_dir)
    ends = unsettled(tokens_recorded(settings, state.attempts), past.told)
    sweep_records(state.attempts, [*starts, *(start.token for _, start in ends)])
    warnings = [*file.warnings, *passed_over_nodelists(file)]
    warnings += filter(None, (state.warning, past.damage, _on_cpu_warning(deck)))
    return OpenDeck(
        file,
        state,
        lock,
        journal,
        loaded.gpus,
        probe_of(settings, loaded.gpus.allocation),
        deck,
        logs,
        loaded.environment,
        starts,
        ends,
        same_boot=same_boot,
        same_namespace=same_namespace,
        warnings=warnings,
        options=encode(loaded.options),
        chosen_by=len(loaded.chosen_by),
    )


def _where_it_ran(deck: Deck, lock: DeckLock, *, takeover: bool, copy: bool) -> tuple[bool, bool]:
    """Whether what earlier engines started may be there still: at this boot of this box, and in our pid namespace."""
    before = lock.previous
    pid_ns = this_machine().pid_ns
    same_namespace = before is None or before.machine.pid_ns == pid_ns
    same_namespace = same_namespace and all(attempt.pid_ns in (0, pid_ns) for _, attempt in deck.lasting)
    # A journal that was lost does not tell of which boot the records are that lie about.
    boot_id = deck.run.boot_id or (before.machine.boot_id if before is not None else "")
    same_boot = boot_id in ("", host.boot_id())
    # A container that was restarted is another pid namespace of the same boot: only the user knows that it is gone.
    same_boot = same_boot and (same_namespace or not takeover) and not copy
    return same_boot, same_namespace


def _refuse_silent_cpu(settings: DeckSettings, gpus: BoxGpus, *, ran_on_gpus: bool) -> None:
    """A deck that has run on GPUs does not quietly go on, a hundred times slower, on the CPU."""
    if settings.backend == "slurm":
        return
    if not gpus.chosen and settings.gpus != "none" and settings.no_gpu == "auto" and ran_on_gpus:
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
    left = (task for task in deck.tasks if task.selected and not isinstance(task.phase, FINAL))
    wanting = sum(task.spec.resources.gpus != 0 for task in left)
    if not deck.on_cpu or not wanting or deck.settings.gpus == "none":
        return ""
    return f"no NVIDIA GPU on this box: {wanting} GPU tasks run on the CPU, {deck.on_cpu_slots} at once"


def _run_environment(past: Past, environ: Mapping[str, str], *, service: bool) -> tuple[Mapping[str, str], str]:
    """A run keeps the environment that it was started with, whichever engine goes on with it. A *service* has no
    environment of its own that would be of use: it takes what is kept. Returns it, and a warning where the caller's
    differs in what decides which programs run."""
    assert past.state is not None
    fresh = base_environment(environ)
    kept = past.environment if past.told.unfinished or service else None
    if kept is None:
        save_environment(past.state.path, fresh)
        return fresh, ""
    other = [name for name in TELLING if kept.get(name) != fresh.get(name)]
    other += [name for name in ("CUDA_VISIBLE_DEVICES",) if name in kept and name not in fresh]
    if service or not other:
        return kept, ""
    names = ", ".join(other)
    return (
        kept,
        f"tasks keep the environment of the run's start; yours has another {names}: see `gpudeck env --refresh`",
    )
