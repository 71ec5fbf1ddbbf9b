"""What an engine's parts need to know of the deck that was opened, the box and each other: each is made here."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from .adapters import host
from .adapters.allocation import across
from .adapters.background import Background
from .adapters.claims.claims import Claims
from .adapters.nvml.probe import NvmlProbe
from .adapters.processes.launcher import LocalLauncher
from .adapters.slurm.jobfiles import control_folder
from .adapters.state.environments import own_environments
from .adapters.state.lock import this_machine
from .adapters.state.mounts import on_network
from .attempts.attempts import Attempts
from .attempts.container import chosen
from .attempts.environment import Box
from .attempts.following import Following
from .attempts.running import RunningAttempts
from .attempts.writer import AttemptJsonWriter
from .core.deck import Deck
from .core.forecast import Forecast
from .core.readings import GpuReading
from .decks.cuda_devices import cuda_visible_devices
from .decks.opening import OpenDeck
from .decks.other_decks import OtherDecks
from .logs.files import AttemptPaths
from .notify.message import Origin
from .notify.notices import Notices
from .notify.targets import problems_of
from .ports import Launcher, Sink
from .report.forecasts import Forecasts
from .report.numbers import slot_count
from .sampler import Sampler, sample_once
from .snapshot.code_versions import Code
from .snapshot.index import Epochs
from .snapshot.manager import Clerk

if TYPE_CHECKING:
    from .serve.cluster_watch import ClusterWatch

Notice = Callable[[str], None]

_FORECAST_S = 60.0
"""A forecast that takes longer is given up."""


def code_of(opened: OpenDeck, loop: asyncio.AbstractEventLoop, note: Callable[[str, str], None]) -> Code | None:
    """*note* (text, level) is told, on any thread, what copies of the code leave out."""
    if not opened.deck.settings.snapshot:
        return None
    epochs = Epochs()
    epochs.hear(opened.journal.load())
    settings = opened.deck.settings
    clerk = Clerk(opened.state.path, settings.log_dir, note, shared=settings.backend == "slurm")
    return Code(
        opened.deck,
        clerk,
        Background(loop),
        Background(loop),
        epochs=epochs,
        now=host.boottime_s,
        note=lambda text: note(text, "info"),
    )


def box_of(opened: OpenDeck, lost: set[str], notice: Notice, code: Code | None) -> Box:
    """*lost*: UUIDs of lost GPUs, the deck's or not, kept up to date by the caller: CUDA counts without them."""
    inventory = opened.gpus.inventory
    inherited = opened.environment.get("CUDA_VISIBLE_DEVICES")

    def visible(uuids: tuple[str, ...]) -> str:
        return cuda_visible_devices(uuids, inventory, inherited=inherited, lost=lost)

    return Box(
        environment=opened.environment,
        visible=visible,
        index_of={gpu.uuid: gpu.index for gpu in inventory.gpus},
        cpus_each=cpus_each(opened),
        cores=opened.deck.cores,
        now=host.boottime_s,
        pid_ns=this_machine().pid_ns,
        notice=notice,
        oom_kills=(lambda: 0) if opened.deck.cluster else host.oom_kills,
        own_environment=own_environments(opened.state.path),
        code=code,
        across=None if opened.gpus.allocation is None else partial(across, opened.gpus.allocation),
        container=chosen(opened.deck.settings.container, opened.environment),
        folder=os.path.dirname(opened.file.path),
        job_samples=control_folder(opened.deck.settings.log_dir),
    )


def notices_of(opened: OpenDeck, notice: Notice, paths: Callable[[str, int], AttemptPaths]) -> Notices:
    """*notice* is told, on another thread, what cannot be sent."""
    settings, file = opened.deck.settings, opened.file
    opened.warnings += problems_of(settings.notify, {**file.vars, "deck": settings.name}, opened.environment)
    return Notices(
        opened.deck,
        Origin(settings.name, file.path, host.hostname(), settings.log_dir),
        opened.environment,
        lambda: {**opened.file.vars, "deck": opened.deck.settings.name},
        mark=os.path.join(opened.state.path, "notified.json"),
        note=notice,
        paths=paths,
    )


def launcher_of(
    opened: OpenDeck,
    loop: asyncio.AbstractEventLoop,
    claims: Claims,
    sink: Sink,
    note: Callable[[str, str], None],
) -> Launcher:
    """*note* (text, level) is told how a cluster stands."""
    if opened.deck.cluster:
        return _on_slurm(opened, loop, sink, note)
    return LocalLauncher(
        opened.state.attempts,
        sink,
        loop,
        claims=claims,
        look=lambda uuids: sample_once(NvmlProbe(), uuids),
        same_boot=opened.same_boot,
        same_namespace=opened.same_namespace,
        environment=opened.environment,
    )


def _on_slurm(
    opened: OpenDeck, loop: asyncio.AbstractEventLoop, sink: Sink, note: Callable[[str, str], None]
) -> Launcher:
    from .adapters.slurm.jobfiles import sweep
    from .adapters.slurm.launcher import SlurmLauncher  # of no use to any other deck

    settings = opened.deck.settings
    control = control_folder(settings.log_dir)
    threading.Thread(target=sweep, args=(control,), name="gpudeck-sweep", daemon=True).start()
    return SlurmLauncher(
        control,
        sink,
        loop,
        environ=opened.environment,
        note=note,
        on_network=on_network(settings.log_dir),
    )


def cluster_watch_of(opened: OpenDeck, loop: asyncio.AbstractEventLoop) -> ClusterWatch | None:
    """Tells screens how full the cluster is; None: tasks run on this box."""
    if not opened.deck.cluster:
        return None
    from .serve.cluster_watch import ClusterWatch  # of no use to any other deck

    return ClusterWatch(loop, opened.environment)


def attempts_of(
    opened: OpenDeck,
    loop: asyncio.AbstractEventLoop,
    launcher: Launcher,
    box: Box,
    writer: AttemptJsonWriter,
    post: Sink,
) -> Attempts:
    return Attempts(
        opened.deck,
        launcher,
        opened.logs,
        box,
        writer,
        post,
        readers=Background(loop),
        checks=Background(loop),
        starters=Background(loop),
        others=OtherDecks(opened.file).at,
        logs_may_hang=on_network(opened.deck.settings.log_dir),
    )


def following_of(
    opened: OpenDeck, loop: asyncio.AbstractEventLoop, running: RunningAttempts, post: Sink, notice: Notice
) -> Following:
    return Following(
        opened.deck,
        loop,
        paths=opened.logs.paths,
        running=running.of,
        post=post,
        notice=notice,
        now=host.boottime_s,
        store=os.path.join(opened.state.path, "metrics.json"),
    )


def sampler_of(
    opened: OpenDeck,
    launcher: Launcher,
    claims: Claims,
    post: Sink,
    seen: Callable[[tuple[GpuReading, ...]], None],
) -> Sampler:
    return Sampler(
        opened.probe,
        [gpu.uuid for gpu in opened.gpus.inventory.gpus] if opened.gpus.chosen else [],
        members=launcher.members,
        mem_available_mib=host.mem_available_mib,
        post=post,
        seen=seen,
        host_too=needs_host_memory(opened.deck),
        claimed=lambda: claims.others(opened.deck.gpus),
    )


def forecasts_of(opened: OpenDeck, loop: asyncio.AbstractEventLoop) -> Forecasts:
    """Worked out in a thread: of a thousand tasks it takes half a second."""
    thread = Background(loop)
    timers: list[asyncio.TimerHandle] = []

    def submit(after_s: float, work: Callable[[], Forecast], done: Callable[[Forecast | None], None]) -> None:
        timers[:] = [loop.call_later(after_s, lambda: thread.submit(work, done, timeout_s=_FORECAST_S))]

    def close() -> None:
        for timer in timers:
            timer.cancel()
        thread.close()

    return Forecasts(opened.deck, host.boottime_s, submit, close)


def cpus_each(opened: OpenDeck) -> int:
    """Cores for a GPU task that asks for no number of its own."""
    return max(1, opened.deck.cores // max(1, slot_count(opened.deck)))


def needs_host_memory(deck: Deck) -> bool:
    """Whether a task asks for memory of the box."""
    asked = (asks for task in deck.tasks for asks in (task.spec.resources, *task.spec.on_oom, *task.spec.on_timeout))
    return not deck.cluster and any(asks.memory_mib for asks in asked)
