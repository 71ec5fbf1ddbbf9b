"""Reads the task file of a live deck again, as its engine once opened it: same options, same environment, same box."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice
from typing import Literal

from ..core.events import Fact
from ..core.recorded import recorded
from ..core.spec import DeckFile, DeckSettings, TaskSpec
from ..decks import handover
from ..decks.cuda_devices import choose
from ..decks.gpus import BoxGpus
from ..decks.loading import Loaded, Loader, Past
from ..decks.opening import OpenDeck, check_before_start
from ..decks.options import decode, has_selection
from ..decks.selection import standing_after, with_newcomers, with_running
from ..errors import UsageError
from ..ports import GpuInfo
from ..results.settings import one_spelling
from ..taskfile.options import RunOptions
from ..taskfile.source import Source, digest_of, read_source
from .change import under


@dataclass(frozen=True, slots=True)
class Reading:
    """A task file as it is now, sound, and fit for this box."""

    file: DeckFile
    digest: str
    """Of all that it says, contents of env_file and fingerprint_files included."""
    chosen: tuple[GpuInfo, ...]
    """The GPUs that the deck gets by it."""
    later: tuple[str, ...]
    """Settings that cannot change before the next start."""
    options: RunOptions | None = None
    """The run options that hold from now on, where they are others."""


Given = tuple[TaskSpec, TaskSpec]
"""A task as it was, and with values in the place of the file's."""


def refuse_clashes(tasks: Sequence[TaskSpec], names: Collection[str]) -> None:
    """Raises UsageError where one of *names* does the work of another task of the file, is of the same setting, or
    writes its outputs."""
    works, outputs = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    settings = defaultdict[object, list[str]](list)
    params = one_spelling({**spec.params, **dict(spec.given)} for spec in tasks)
    setting_of = [(spec.entry, frozenset(each.items())) for spec, each in zip(tasks, params, strict=True)]
    for spec, setting in zip(tasks, setting_of, strict=True):
        works[spec.fingerprint].append(spec.name)
        settings[setting].append(spec.name)
        for path in spec.outputs:
            outputs[path].append(spec.name)
    for spec, setting in zip(tasks, setting_of, strict=True):
        if spec.name not in names or not spec.given:
            continue
        for other in works[spec.fingerprint]:
            if other != spec.name:
                raise UsageError(f"{spec.name}: with these values it would do the same as {other}")
        for other in settings[setting]:
            if other != spec.name:
                raise UsageError(f"{spec.name}: with these values it would be the same setting as {other}")
        for path in spec.outputs:
            for other in outputs[path]:
                if other != spec.name:
                    shown = os.path.relpath(path, spec.cwd)
                    hint = "outputs with {task} in their path get into nobody's way"
                    raise UsageError(f"{spec.name}: with these values it writes {shown}, as {other} does: {hint}")


def content_digest(path: str) -> str:
    """Of the file's bytes. Raises OSError."""
    with open(path, "rb") as file:
        return digest_of(file.read())


class Reader:
    """One deck's. `read` runs away from the loop."""

    def __init__(self, opened: OpenDeck, chosen_by: int) -> None:
        """*chosen_by*: how many facts there were when the tasks of the run were chosen, for selectors such as
        `state:failed`; what is recorded from there on chooses no others."""
        self._opened = opened
        self._chosen_by = chosen_by

    def read(self) -> Reading:
        """Raises DeckError with every problem of the file."""
        opened = self._opened
        shown, path = opened.file.shown, opened.file.path
        source = read_source(shown if os.path.abspath(shown) == path else path)
        before = decode(opened.options)
        loaded = self._load(source, before)
        options = loaded.options
        if opened.deck.run.ended:
            options = with_newcomers(options, loaded.file, {spec.name for spec in opened.file.tasks})
        if options != loaded.options:
            loaded = self._load(source, options)
        file = loaded.file
        chosen, later = self._gpus(file.settings)
        check_before_start(file, loaded.gpus, opened.environment)
        total = blake2b(file.digest.encode(), digest_size=16)
        for spec in file.tasks:
            total.update(spec.fingerprint.encode())
        return Reading(file, total.hexdigest(), chosen, later, options if options != before else None)

    def work_of(self, text: str) -> dict[str, str]:
        """What tasks of this deck a file of such *text* would say: fingerprints by name. Raises DeckError."""
        source = read_source(self._opened.file.shown, text.encode())
        file = self._load(source, decode(self._opened.options)).file
        return {spec.name: spec.fingerprint for spec in file.tasks}

    def under(self, options: RunOptions) -> Reading:
        """What the deck has, under other options: the file is not read, lest edits of it came along.

        Raises DeckError where they mean nothing, or cannot be had before the next start.
        """
        opened = self._opened
        before = decode(opened.options)
        facts = self._history(options)
        file = with_running(
            under(opened.file, options, standing_after(facts, opened.gpus.inventory.gpus)), recorded(facts)
        )
        chosen, later = self._gpus(file.settings)
        if later and options.gpus != before.gpus:
            raise UsageError(
                f"--gpus {options.gpus}: an engine that runs cannot change to that; "
                f"`gpudeck stop` ends it and no task, then start the deck with it"
            )
        check_before_start(file, replace(opened.gpus, chosen=chosen), opened.environment)
        return Reading(file, file.digest, chosen, later, options)

    def retried_with(self, given: Mapping[str, Mapping[str, str]]) -> Reading:
        """What the deck has, and these tasks with values of variables in the place of the file's. Raises DeckError
        where they mean nothing."""
        opened = self._opened
        before = decode(opened.options)
        options = replace(before, retried={**before.retried, **given})
        content = handover.kept_file(opened.state.path) or opened.file.text.encode()
        loaded = self._load(read_source(opened.file.shown, content), options).file
        for name in given:
            if name in loaded.unfit:
                raise UsageError(f"{name}: the retry {loaded.unfit[name]}")
        anew = {spec.name: spec for spec in loaded.tasks if spec.name in given}
        for name in given.keys() - anew:
            raise UsageError(f"{name}: other values mean nothing to it: it is not in the task file any more")
        tasks = tuple(replace(anew.get(spec.name, spec), position=spec.position) for spec in opened.file.tasks)
        refuse_clashes(tasks, given)
        values = {spec.name: dict(spec.given) for spec in tasks if spec.given}
        file = replace(opened.file, tasks=tasks)
        return Reading(file, file.digest, opened.gpus.chosen, (), replace(options, retried=values))

    def _load(self, source: Source, options: RunOptions) -> Loaded:
        opened, facts = self._opened, self._history(options)
        past = Past(facts=facts, told=replace(recorded(facts), shards=dict(opened.deck.shards)))
        ended = opened.deck.run.ended
        return Loader(source, opened.environment, past, self._gpus_of, facts, lenient=ended).under(options)

    def _gpus_of(self, settings: DeckSettings, _: RunOptions) -> BoxGpus:
        return replace(self._opened.gpus, chosen=self._gpus(settings)[0])

    def _history(self, options: RunOptions) -> Sequence[Fact]:
        """What a selection depends on; reading it takes seconds of a large deck."""
        return list(islice(self._opened.journal.load(), self._chosen_by)) if has_selection(options) else ()

    def _gpus(self, settings: DeckSettings) -> tuple[tuple[GpuInfo, ...], tuple[str, ...]]:
        """The GPUs that the settings ask for, as far as they can change while the engine lives."""
        opened = self._opened
        wanted, now = settings.gpus, opened.deck.settings.gpus
        if wanted == now or opened.deck.cluster:
            return opened.gpus.chosen, ()
        chosen = _choose(opened.gpus, wanted, now, opened.environment, settings.no_gpu)
        if chosen is None or bool(chosen) is not bool(opened.gpus.chosen):
            return opened.gpus.chosen, ("gpus",)
        return chosen, ()


Wanted = Literal["all", "none"] | tuple[str, ...] | int


def _choose(
    gpus: BoxGpus, wanted: Wanted, now: Wanted, environ: Mapping[str, str], no_gpu: Literal["auto", "cpu", "fail"]
) -> tuple[GpuInfo, ...] | None:
    """None: not before the next start, which discovers GPUs anew. Raises DeckError for ids that do not exist."""
    if isinstance(wanted, int) or isinstance(now, int):
        simulated = gpus.inventory.gpus
        if isinstance(wanted, int) and isinstance(now, int) and wanted <= len(simulated):
            return simulated[:wanted]
        return None
    if wanted == "none" or now == "none":
        return None
    inherited = environ.get("CUDA_VISIBLE_DEVICES")
    return choose(gpus.inventory, wanted, inherited=inherited, slurm=environ, no_gpu=no_gpu)
