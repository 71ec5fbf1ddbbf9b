"""Opens a deck: task file, state folder, lock, journal, GPUs; and restores what earlier engines did."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from .adapters import host
from .adapters.decklock import DeckLock, this_machine
from .adapters.journal import SqliteJournal
from .adapters.nvml import NvmlProbe
from .adapters.simulated import SimulatedProbe
from .adapters.statedir import StateDir, open_state_dir
from .core.build import build, slots_of
from .core.deck import Deck
from .core.devices import Gpu
from .core.events import AttemptStarting, Fact, ShardsFixed
from .core.restore import replay
from .core.spec import DeckFile, DeckSettings
from .environment import base_environment
from .errors import EngineUnavailableError, UsageError
from .logs.files import LogFolder
from .past import (
    History,
    Unsettled,
    ran_on_gpus,
    refuse_strangers,
    run_environment,
    run_is_unfinished,
    running_tasks,
    stand_in_for_left_out,
    sweep_records,
    unsettled,
)
from .ports import GpuInfo, GpuProbe, Inventory
from .run_options import continued, decode, describe, encode, options_of
from .taskfile.fit import check_environment, check_fit
from .taskfile.later import refuse_later
from .taskfile.load import load, load_settings
from .taskfile.options import Box, RunOptions
from .taskfile.settings import stem_of
from .visible import choose


@dataclass(frozen=True, slots=True)
class BoxGpus:
    """The box's GPUs and those of them that the deck may use."""

    probe: GpuProbe
    inventory: Inventory
    chosen: tuple[GpuInfo, ...]
    """In order of preference; empty: run on the CPU."""

    @property
    def simulated(self) -> bool:
        return any(gpu.simulated for gpu in self.chosen)

    def fitting(self) -> Inventory:
        """What tasks have to fit on: the deck's GPUs, or all that there is where it runs on the CPU."""
        return replace(self.inventory, gpus=self.chosen) if self.chosen else self.inventory


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


def look_at_gpus(settings: DeckSettings, environ: Mapping[str, str], where: str = "") -> BoxGpus:
    """Discover GPUs and choose the deck's. Raises UsageError and EngineUnavailableError (see `choose`).

    *where*: what asks for them, for messages: the task file, unless the command line says which.
    """
    probe: GpuProbe = SimulatedProbe(settings.gpus) if isinstance(settings.gpus, int) else NvmlProbe()
    inventory = Inventory(()) if settings.gpus == "none" else probe.discover()
    inherited = environ.get("CUDA_VISIBLE_DEVICES")
    try:
        chosen = choose(inventory, settings.gpus, inherited=inherited, slurm=environ, no_gpu=settings.no_gpu)
    except UsageError as error:
        raise UsageError(f"{where}: {error}" if where else str(error)) from error
    return BoxGpus(probe, inventory, chosen)


def core_gpus(settings: DeckSettings, chosen: Sequence[GpuInfo]) -> list[Gpu]:
    """The chosen GPUs as the scheduler wants them."""
    return [
        Gpu(
            uuid=info.uuid,
            index=info.index,
            order=order,
            slots=slots_of(settings, str(info.index), info.uuid),
            total_mib=info.total_mib,
            links=dict(info.links or {}),
            simulated=info.simulated,
            unread=not info.simulated and settings.foreign != "ignore",
        )
        for order, info in enumerate(chosen)
    ]


def open_deck(path: str, given: RunOptions, environ: Mapping[str, str], *, as_root: bool, takeover: bool) -> OpenDeck:
    """Everything up to the first start, checked before the first start. Raises DeckError."""
    settings = load_settings(path, given)
    stem = stem_of(path, given)
    if not os.path.exists(os.path.join(settings.state_dir, stem)):
        _check_first(path, given, settings, environ)
    state = open_state_dir(path, settings.state_dir, stem, as_root=as_root, takeover=takeover)
    lock = DeckLock.acquire(state.path, unfinished=state.unfinished(), takeover=takeover)
    with contextlib.ExitStack() as undo:
        undo.callback(lock.release)
        journal = SqliteJournal.open(state.db)
        undo.callback(journal.close)
        facts = list(journal.load())
        unfinished = run_is_unfinished(facts)
        options = continued(decode(options_of(facts)), given) if unfinished else given
        environment, other = run_environment(state, unfinished=unfinished, environ=environ)
        gpus = look_at_gpus(load_settings(path, options), environ, _asker(path, options))
        file = _with_running(_load(path, options, gpus, facts, environment), facts)
        check_before_start(file, gpus, environment)
        _refuse_silent_cpu(file.settings, gpus, facts)
        opened = _restore(file, state, lock, journal, gpus, facts, environment, takeover=takeover)
        kept = f"the run goes on as it was started: {describe(options)}" if unfinished and options != given else ""
        opened.warnings += filter(None, [other, kept])
        opened.options = encode(options)
        undo.pop_all()
    return opened


def _check_first(path: str, options: RunOptions, settings: DeckSettings, environ: Mapping[str, str]) -> None:
    """A first start that comes to nothing leaves nothing behind."""
    environment = base_environment(environ)
    try:
        gpus = look_at_gpus(settings, environ, _asker(path, options))
    except UsageError:
        load(path, options, environ=environment)  # what else is wrong with the file comes first
        raise
    check_before_start(_load(path, options, gpus, (), environment), gpus, environment)


def _with_running(file: DeckFile, facts: Sequence[Fact]) -> DeckFile:
    """What runs belongs to the run, whatever is selected now: a later round must not start beside it."""
    return file if file.selected is None else replace(file, selected=file.selected | running_tasks(facts))


def _asker(path: str, options: RunOptions) -> str:
    return "" if options.gpus else path


def _load(
    path: str, options: RunOptions, gpus: BoxGpus, facts: Sequence[Fact], environment: Mapping[str, str]
) -> DeckFile:
    shards = {fact.entry: fact.shards for fact in facts if isinstance(fact, ShardsFixed)}
    box = Box(len(gpus.chosen) or None, host.cores(), shards)
    return load(path, options, box, environ=environment, look=History(facts, gpus.inventory.gpus).look)


def check_before_start(file: DeckFile, gpus: BoxGpus, environ: Mapping[str, str]) -> None:
    """What only a start asks for: GPUs that exist, behaviour that exists, variables that the caller gives."""
    check_fit(file, gpus.fitting())
    refuse_later(file)
    check_environment(file, environ)


def _restore(
    file: DeckFile,
    state: StateDir,
    lock: DeckLock,
    journal: SqliteJournal,
    gpus: BoxGpus,
    facts: Sequence[Fact],
    environment: Mapping[str, str],
    *,
    takeover: bool,
) -> OpenDeck:
    settings = file.settings
    on_cpu = not gpus.chosen
    deck = build(file, gpus=core_gpus(settings, gpus.chosen), cores=host.cores(), on_cpu=on_cpu)
    starts = replay(deck, facts)
    before = lock.previous
    pid_ns = this_machine().pid_ns
    same_namespace = before is None or before.machine.pid_ns == pid_ns
    for task in deck.active.values():
        attempt = task.attempt()
        if attempt is not None and attempt.pid_ns:
            same_namespace = same_namespace and attempt.pid_ns == pid_ns
    same_boot = not deck.run.boot_id or deck.run.boot_id == host.boot_id()
    # A container that was restarted is another pid namespace of the same boot: only the user knows that it is gone.
    same_boot = same_boot and (same_namespace or not takeover)
    if same_boot:
        refuse_strangers(state.attempts, file, facts)
    _make_log_dir(settings.log_dir)
    logs = LogFolder(settings.log_dir, (spec.name for spec in file.tasks))
    for task in deck.tasks:
        if not task.attempts or journal.damage:
            task.attempts = max(task.attempts, logs.highest(task.name))
    stand_in_for_left_out(deck, logs)
    ends = unsettled(state.attempts, facts)
    sweep_records(state.attempts, [*starts, *(start.token for _, start in ends)])
    warnings = [*file.warnings, *filter(None, (state.warning, journal.damage, _on_cpu_warning(deck)))]
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


def _refuse_silent_cpu(settings: DeckSettings, gpus: BoxGpus, facts: Sequence[Fact]) -> None:
    """A deck that has run on GPUs does not quietly go on, a hundred times slower, on the CPU."""
    if not gpus.chosen and settings.gpus != "none" and settings.no_gpu == "auto" and ran_on_gpus(facts):
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
