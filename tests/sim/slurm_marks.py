"""What worlds with a cluster have come to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gpudeck.engine.core.events import AttemptEnded, StartRevoked
from tests.sim.world import World


def _said(pattern: str) -> Callable[[World], bool]:
    return lambda world: any(re.search(pattern, line) for line in world.box.trace)


def _ended(of: Callable[[AttemptEnded], object]) -> Callable[[World], bool]:
    return lambda world: any(
        isinstance(fact, AttemptEnded) and of(fact) for disk in world.box.disks.values() for fact in disk.facts
    )


def _revoked(words: str) -> Callable[[World], bool]:
    return lambda world: any(
        isinstance(fact, StartRevoked) and words in fact.why for disk in world.box.disks.values() for fact in disk.facts
    )


ON_CLUSTER: Mapping[str, Callable[[World], bool]] = {
    "Slurm: tasks share an array": _said(r"sbatch of ([2-9]|\d\d)"),
    "Slurm: a job is taken, and the answer lost": _said("sbatch of .*reply lost"),
    "Slurm: a submission is lost": _said("sbatch of .*submission lost"),
    "Slurm: a submission comes late": _said("sbatch of .*late"),
    "Slurm: what may have been submitted is given up": _revoked("sbatch gave no answer"),
    "Slurm: a job that was given up begins, and runs nothing": _said("finds its claim taken"),
    "Slurm: a job that waited is forgotten": _revoked("has forgotten"),
    "Slurm: a node that was cut off comes back": _said("is back"),
    "Slurm: the login node goes down": _said("the login node goes down"),
    "Slurm: nobody knows the code": _ended(lambda fact: fact.outcome.reason == "lost"),
    "Slurm: out of memory": _ended(lambda fact: fact.outcome.reason == "oom"),
    "Slurm: preempted": _ended(lambda fact: fact.outcome.reason == "preempted"),
    "Slurm: its own time limit": _ended(lambda fact: "Slurm's time limit" in fact.outcome.detail),
    "Slurm: cancelled from outside": _ended(lambda fact: fact.outcome.detail == "by scancel"),
    "Slurm: a job can write no log": _said("can write no log"),
    "Slurm: a job cannot write its end": _said("cannot write its end"),
    "Slurm: a job has several nodes": _said(r"runs on node\d,"),
    "Slurm: a job loses a node that is not its first": _said(r"job \S+: NODE_FAIL"),
    "Slurm: a node that failed is avoided": _ended(lambda fact: fact.outcome.reason == "node_fail" and fact.avoid),
}
