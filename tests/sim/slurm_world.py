"""Worlds whose decks give their tasks to a simulated cluster, through the real launcher for one."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

from gpudeck.engine.core.spec import DeckFile, TaskSpec
from tests.inside.sim import SlurmLauncher, of_slurm
from tests.sim import promises
from tests.sim.box import Process
from tests.sim.engine import SimEngine
from tests.sim.plan import Plan
from tests.sim.promises import Broken
from tests.sim.shared_files import SimArrivals, SimBackground
from tests.sim.slurm import ANSWERS, FAULTS, Clustered, ClusterPlan, SimCalls, SimSlurm
from tests.sim.world import World

_OF_CARDS = ("gpu lost", "foreign", "refused")
_RARE = ("power", "cut off", "log disk full", "folder full", "forgets", "controller hangs", "folder hangs")


def cluster_of(seed: int) -> ClusterPlan:
    """Swarm, as `plan_of`."""
    random = Random(f"cluster {seed}")
    answers = {name: random.choice([0.05, 0.2]) for name in ANSWERS if random.random() < 0.4}
    if "no" in answers:
        answers["no"] /= 10
    odds = {name: random.choice([0.0005, 0.003]) for name in FAULTS if random.random() < 0.4}
    return ClusterPlan(
        nodes=random.choice([1, 2, 3]),
        lag_s=random.choice([0.0, 0.0, 1.0, 10.0, 30.0]),
        tells=random.random() < 0.5,
        wait_s=random.choice([0.1, 5.0, 60.0]),
        kept_s=random.choice([0.0, 5.0, 300.0]),
        stale_s=random.choice([0.0, 0.0, 20.0]),
        accounts_s=random.choice([None, 0.0, 1.0, 30.0]),
        comments=random.random() < 0.5,
        answers=answers,
        odds={name: each / (4 if name in _RARE else 1) for name, each in odds.items()},
    )


def on_cluster(plan: Plan, nodes: int) -> Plan:
    """The same decks, their tasks jobs of a cluster of so many nodes."""
    random = Random(f"jobs {plan.seed}")
    decks = {name: _jobs_of(random, name, file, nodes) for name, file in plan.decks.items()}
    return replace(
        plan,
        gpus=0,
        decks=decks,
        broken="",
        odds={name: odds for name, odds in plan.odds.items() if name not in _OF_CARDS},
    )


def _jobs_of(random: Random, name: str, file: DeckFile, most: int) -> DeckFile:
    settings = replace(file.settings, name=name, backend="slurm", max_submitted=random.choice([2, 20]), keep_free=0)
    asks = random.choice([(), (("array", True),), (("time", 60.0),)])
    nodes = min(most, random.choice([1, 1, 2]))
    return replace(file, settings=settings, tasks=tuple(_job_of(task, nodes, asks) for task in file.tasks))


def _job_of(task: TaskSpec, nodes: int, asks: tuple[tuple[str, object], ...]) -> TaskSpec:
    extras = replace(task.extras, slurm=asks, nodes=nodes)
    return replace(task, extras=extras, resources=replace(task.resources, gpus=0, exclusive=False))


class SlurmEngine(SimEngine):
    """With the launcher for clusters."""

    box: Clustered

    def _launcher(self) -> Any:
        self.box.lives_of_engines += 1
        return SlurmLauncher(
            f"{self.log_dir}/.jobs",
            self._arrived,
            self.loop,
            environ={"USER": f"{self.name} {self.box.lives_of_engines}"},
            note=lambda text, _: self.box.say(f"{self.name} notes: {text}"),
            on_network=not self.box.slurm.plan.tells,
            now=lambda: self.box.now,
        )

    def _left(self) -> Collection[str]:
        control = f"{self.log_dir}/.jobs"
        names = os.listdir(control) if os.path.isdir(control) else []
        return {name.partition(".")[0] for name in names if name.endswith((".began", ".ended"))}

    def heard(self, process: Process) -> None:
        """Of what happens on nodes only files and Slurm tell."""


class SlurmWorld(World):
    """One run of one plan on a cluster."""

    box: Clustered
    box_kind = Clustered
    engine_kind = SlurmEngine
    looked_at = 0.004  # at many moments somebody only looks whether there is news

    def __init__(self, plan: Plan, cluster: ClusterPlan, folder: str) -> None:
        super().__init__(on_cluster(plan, cluster.nodes), folder)
        self.slurm = SimSlurm(self.box, cluster, self.plan.behaviour, self._called, self._submitting)
        # A controller or folder that is away twice, and two calls that hang.
        self.box.late_s += 3 * cluster.lag_s + 450.0
        self._asked: dict[tuple[str, str], float] = {}
        self._submitted = set[str]()

    def run(self) -> None:
        with self._on_cluster():
            super().run()

    def _goes_wrong(self, engine: SimEngine) -> bool:
        for fault, odds in self.slurm.plan.odds.items():
            if self.random.random() < odds:
                self.faults[fault] += 1
                self.slurm.go_wrong(fault)
        return super()._goes_wrong(engine)

    def _sound(self) -> bool:
        if not self.slurm.calm:
            self.slurm.heal()
        return super()._sound()

    def _called(self, who: str, program: str) -> None:
        """Once for all jobs, and not too often."""
        last = self._asked.get((who, program), -1e9)
        self._asked[who, program] = self.box.instant().wall_s
        promises.of_queries(who, program, self.box.instant().wall_s - last)

    def _submitting(self, scripts: Sequence[Mapping[str, str]], taken: bool) -> None:
        for said in scripts:
            token, deck = said["gd_token"], said["gd_control"].split("/")[-2]
            task, attempt = said["GPUDECK_TASK"], int(said["GPUDECK_ATTEMPT"])
            if token in self._submitted:
                raise Broken(f"{task} attempt {attempt} of {deck} is submitted again and may have been taken before")
            if taken:
                self._submitted.add(token)
            behaviour = self.plan.behaviour(deck, task, attempt)
            new = Process(token, deck, task, attempt, (), 0, self.box.boot, behaviour, self.box.now)
            promises.at_spawn(self.box, self.engines[deck].files, self.specs, self.box.disks[deck].facts, new)

    def _begun(self, new: Process) -> None:
        promises.at_begin(self.box, self.box.disks[new.deck].facts, new)

    @contextmanager
    def _on_cluster(self) -> Iterator[None]:
        """The launcher's programs, threads, files and clock are the world's."""
        slurm, files, box = self.slurm, self.slurm.files, self.box
        calls = type("Calls", (SimCalls,), {"slurm": slurm})
        with ExitStack() as stack:
            for module, name, new in of_slurm(
                run_program=slurm.run_program,
                calls=calls,
                background=partial(SimBackground, files),
                arrivals=partial(SimArrivals, files),
                within=files.within,
                time=SimpleNamespace(time=lambda: box.instant().wall_s),
                spacious=files.spacious,
                void=files.void,
            ):
                stack.enter_context(mock.patch.object(module, name, new))
            yield
