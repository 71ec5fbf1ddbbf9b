"""Opens a deck: task file, state folder, lock, journal, GPUs; and restores what earlier engines did."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .adapters import host
from .adapters.decklock import DeckLock, read_holder, this_machine
from .adapters.journal import SqliteJournal
from .adapters.nvml import NvmlProbe
from .adapters.simulated import SimulatedProbe
from .adapters.statedir import StateDir, load_environment, open_state_dir, save_environment
from .core.build import build, slots_of
from .core.deck import Deck
from .core.devices import Gpu
from .core.events import AttemptStarting, Fact, RunStarted, ShardsFixed
from .core.restore import rebooted, replay
from .core.spec import DeckFile, DeckSettings
from .environment import base_environment, missing_required
from .errors import TaskFileError
from .logs.files import LogFolder
from .ports import GpuInfo, GpuProbe, Inventory
from .taskfile.fit import check_fit
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
    same_boot: bool = True
    same_namespace: bool = True
    warnings: list[str] = field(default_factory=list[str])


def look_at_gpus(settings: DeckSettings, environ: Mapping[str, str]) -> BoxGpus:
    """Discover GPUs and choose the deck's. Raises UsageError and EngineUnavailableError (see `choose`)."""
    probe: GpuProbe = SimulatedProbe(settings.gpus) if isinstance(settings.gpus, int) else NvmlProbe()
    inventory = Inventory(()) if settings.gpus == "none" else probe.discover()
    inherited = environ.get("CUDA_VISIBLE_DEVICES")
    chosen = choose(inventory, settings.gpus, inherited=inherited, slurm=environ, no_gpu=settings.no_gpu)
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
        )
        for order, info in enumerate(chosen)
    ]


def open_deck(path: str, options: RunOptions, environ: Mapping[str, str], *, as_root: bool, takeover: bool) -> OpenDeck:
    """Everything up to the first start, checked before the first start. Raises DeckError."""
    settings = load_settings(path, options)
    gpus = look_at_gpus(settings, environ)
    stem = stem_of(path, options)
    state = open_state_dir(path, settings.state_dir, stem, as_root=as_root, takeover=takeover)
    before = read_holder(state.path)
    lock = DeckLock.acquire(state.path, unfinished=state.unfinished(), takeover=takeover)
    try:
        journal = SqliteJournal.open(state.db)
        facts = list(journal.load())
        shards = {fact.entry: fact.shards for fact in facts if isinstance(fact, ShardsFixed)}
        file = load(path, options, Box(len(gpus.chosen) or None, host.cores(), shards), environ=environ)
        check_before_start(file, gpus.inventory, gpus.chosen, environ)
        opened = _restore(file, state, lock, journal, gpus, facts, environ)
        _same_place(opened, before)
    except BaseException:
        lock.release()
        raise
    return opened


def check_before_start(
    file: DeckFile, inventory: Inventory, chosen: Sequence[GpuInfo], environ: Mapping[str, str]
) -> None:
    """What only a start asks for: GPUs that exist, behaviour that exists, variables that the caller gives."""
    check_fit(file, inventory, chosen)
    refuse_later(file)
    problems = [
        f'{os.path.relpath(file.path)}:{spec.line}: task "{spec.name}": {name} is not set in the environment '
        f"(env_required)"
        for spec in file.tasks
        if spec.env_required and (file.selected is None or spec.name in file.selected)
        for name in missing_required(spec, environ)
    ]
    if problems:
        raise TaskFileError(problems)


def _restore(
    file: DeckFile,
    state: StateDir,
    lock: DeckLock,
    journal: SqliteJournal,
    gpus: BoxGpus,
    facts: Sequence[Fact],
    environ: Mapping[str, str],
) -> OpenDeck:
    settings = file.settings
    on_cpu = not gpus.chosen
    deck = build(file, gpus=core_gpus(settings, gpus.chosen), cores=host.cores(), on_cpu=on_cpu)
    starts = replay(deck, facts)
    logs = LogFolder(settings.log_dir, (spec.name for spec in file.tasks))
    for task in deck.tasks:
        if not task.attempts:
            task.attempts = logs.highest(task.name)
    warnings = [*file.warnings, *filter(None, (state.warning, journal.damage))]
    environment = _environment(state, deck, facts, environ)
    return OpenDeck(file, state, lock, journal, gpus, deck, logs, environment, starts, warnings=warnings)


def _environment(state: StateDir, deck: Deck, facts: Sequence[Fact], environ: Mapping[str, str]) -> Mapping[str, str]:
    """A run keeps the environment that it was started with, whichever engine goes on with it."""
    unfinished = any(isinstance(fact, RunStarted) for fact in facts) and not deck.run.ended
    kept = load_environment(state.path) if unfinished else None
    if kept is not None:
        return kept
    fresh = base_environment(environ)
    save_environment(state.path, fresh)
    return fresh


def _same_place(opened: OpenDeck, before: object) -> None:
    """Compare this boot with the run's: after a reboot nothing that ran lives, and old clock readings mean nothing."""
    deck = opened.deck
    boot = host.boot_id()
    opened.same_boot = not deck.run.boot_id or deck.run.boot_id == boot
    machine = getattr(before, "machine", None)
    opened.same_namespace = machine is None or machine.pid_ns == this_machine().pid_ns
    if not opened.same_boot:
        rebooted(deck, host.boottime_s())
