"""The command of a task for people: what its newest attempt executed, or what the first will, ready for a shell."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ..core.deck import Deck, Task
from ..core.spec import Command, TaskSpec
from ..logs.files import AttemptPaths
from ..logs.secrets import MASK, is_secret, mask, masked_command, secrets_in
from ..taskfile.command import RuntimeValues, shell, told
from .box import Box, launching_python
from .cluster import gpus_each
from .launching import Ranks, launch_env, launched, ranks_of, threads_each


@dataclass(frozen=True, slots=True)
class ToldLaunch:
    """How the processes of a task are started, for people."""

    command: tuple[str, ...]
    """What is executed."""
    env: Mapping[str, str]
    """What launcher and ranks are told beside the task's own variables."""
    ranks: int


@dataclass(frozen=True, slots=True)
class _Newest:
    """What makes the newest attempt of a task other than the next."""

    number: int
    gpus: tuple[str, ...]
    rung: int
    card_mib: int


class ToldCommands:
    """Tells commands of one deck. Of a task that was changed since, the command is what it is now."""

    def __init__(
        self,
        deck: Deck,
        paths: Callable[[str, int], AttemptPaths],
        box: Box,
        resumed: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """*box*: GPUs that its `index_of` lacks are unknown, and with `cpus_each` 0 so are cores that no task asks for.
        *resumed*: whether a task's newest attempt went on from an earlier one, by name."""
        self._deck = deck
        self._paths = paths
        self._box = box
        self._resumed = resumed
        self._secrets = secrets_in(box.environment)
        self._environ = {name: MASK if is_secret(name) else value for name, value in box.environment.items()}

    def of(self, task: Task) -> Command:
        """Secrets are masked. What is known only at a start stands as {name} while there has been none."""
        newest = _newest(task)
        spec = task.begun_spec.on_card(0 if newest is None else newest.card_mib)
        values, unknown = self._values(spec, newest)
        command = told(spec, self._command(spec, newest), values, unknown)
        secrets = self._secrets_of(task.name)
        if isinstance(command, str):
            masked = masked_command(mask(command, secrets))
        else:
            masked = masked_command([mask(word, secrets) for word in command])
        return masked if isinstance(masked, str) else tuple(masked)

    def hiding(self, task: Task) -> Callable[[str], str]:
        """What takes secrets of the task's environment out of a text."""
        return partial(mask, secrets=self._secrets_of(task.name))

    def launch(self, task: Task) -> ToldLaunch | None:
        """What starts the command; None: nothing does, it is executed itself."""
        newest = _newest(task)
        spec = task.begun_spec.on_card(0 if newest is None else newest.card_mib)
        cluster = bool(self._deck.cluster)
        gpus = self._wanted_gpus(spec) if newest is None or cluster else len(newest.gpus)
        ranks = ranks_of(spec, gpus, self._box.cores, cluster=cluster)
        if ranks is None:
            return None
        command = self.of(task)
        argv = (shell(), "-c", command) if isinstance(command, str) else command
        paths = self._paths(spec.name, newest.number if newest is not None else 1)
        python = launching_python(spec, self._box)
        return ToldLaunch(
            launched(ranks, argv, python, paths, merged=spec.policy.merge_stderr),
            self._launch_env(spec, ranks, gpus, paths),
            ranks.count,
        )

    def _launch_env(self, spec: TaskSpec, ranks: Ranks, gpus: int, paths: AttemptPaths) -> Mapping[str, str]:
        found = launch_env(ranks, spec, paths)
        cpus = spec.resources.cpus or (1 if spec.resources.gpus == 0 else self._box.cpus_each)
        if cpus and not (self._deck.cluster and not spec.resources.cpus):
            threads = str(threads_each(ranks, spec, gpus, cpus))
            found |= {name: self._environ.get(name, threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        own = {name for name, _ in spec.work.env}
        return {name: value for name, value in found.items() if name not in own}

    def _wanted_gpus(self, spec: TaskSpec) -> int:
        """What its first attempt will be given; on a cluster each of them, on each node."""
        if self._deck.cluster:
            return gpus_each(spec)
        there, wanted = len(self._deck.gpus), spec.resources.gpus
        return there if wanted == "all" else min(there, wanted)

    def _command(self, spec: TaskSpec, newest: _Newest | None) -> Command:
        if newest is None:
            return spec.work.command
        if spec.resume is not None and self._resumed(spec.name):
            return spec.resume.on_rung(newest.rung)
        return spec.on_rung(newest.rung).command

    def _values(self, spec: TaskSpec, newest: _Newest | None) -> tuple[RuntimeValues, frozenset[str]]:
        """What placeholders stand for, and those of which nobody knows."""
        index_of, wanted = self._box.index_of, spec.resources
        gpus = () if newest is None else newest.gpus
        cpus = wanted.cpus or (1 if wanted.gpus == 0 or self._deck.cluster else self._box.cpus_each)
        unknown = {"cpus"} if not cpus else set[str]()
        if newest is None:
            unknown |= {"attempt", "num_gpus"}
        ids = tuple(str(index_of.get(uuid, uuid)) for uuid in gpus)
        if self._deck.cluster:
            unknown -= {"num_gpus"}
            ids = tuple(map(str, range(gpus_each(spec))))
        elif newest is None or any(uuid not in index_of for uuid in gpus):
            unknown |= {"gpu_ids"}
        values = RuntimeValues(
            attempt=0 if newest is None else newest.number,
            gpu_ids=ids,
            cpus=cpus,
            run_dir=self._paths(spec.name, 1).dir,
            log_dir=self._deck.settings.log_dir,
            python=sys.executable,
            environ=self._environ,
        )
        return values, frozenset(unknown)

    def _secrets_of(self, task: str) -> Sequence[str]:
        """Values in its environment that nobody is to see."""
        with contextlib.suppress(OSError):  # of an attempt that is over it may be gone
            own = self._box.own_environment(task)
            return self._secrets if own is None else secrets_in(own)
        return self._secrets


def _newest(task: Task) -> _Newest | None:
    attempt = task.attempt()
    if attempt is not None:
        return _Newest(attempt.number, attempt.gpus, attempt.rung, attempt.card_mib)
    if not task.ended:
        return None
    last = task.ended[-1]
    return _Newest(last.number, last.gpus, last.rung, last.card_mib)
