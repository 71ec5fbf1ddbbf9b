"""What a cluster says about itself and about its user."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..adapters.host import login_of
from ..adapters.slurm.calls import small_environment
from ..adapters.slurm.cluster import SINFO, Partition, partitions_of
from ..taskfile.problems import BadValueError
from ..taskfile.units import sbatch_time_s
from .child import Ended, run

NEEDED = ("sbatch", "squeue", "scancel", "sinfo", "scontrol")
LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Call:
    """Runs Slurm's programs as the engine would."""

    env: Mapping[str, str]

    def __call__(self, *argv: str, stdin: str = "") -> Ended:
        return run(argv, env=self.env, cwd=os.sep, limit_s=LIMIT_S, stdin=stdin)


@dataclass(frozen=True, slots=True)
class SlurmFacts:
    missing: tuple[str, ...] = ()
    """Programs that are not on the PATH; nothing else is known then."""
    version: str = ""
    trouble: str = ""
    """How the controller does not answer; nothing but the version is known then."""
    answer_s: float = 0.0
    config: Mapping[str, str] = field(default_factory=dict[str, str])
    """`scontrol show config`."""
    partitions: tuple[Partition, ...] = ()
    times: Mapping[str, float] = field(default_factory=dict[str, float])
    """How long a job may last, seconds by partition; those without a limit are not in it."""
    most_submitted: int | None = None
    """Jobs that the user may have in the queue and running, the least that any QOS or association says."""
    associations: tuple[Association, ...] | None = None
    """None: nobody keeps accounts here, or the user has no name to keep them under."""

    def number(self, name: str) -> int | None:
        """Of the configuration: "300 sec" is 300."""
        word = self.config.get(name, "").split()[:1]
        return int(word[0]) if word and word[0].isdecimal() else None


@dataclass(frozen=True, slots=True)
class Association:
    """What the user may submit to."""

    account: str
    qos: tuple[str, ...]


def caller(environ: Mapping[str, str]) -> Call:
    return Call(small_environment(environ))


def look(call: Call) -> SlurmFacts:
    missing = tuple([name for name in NEEDED if shutil.which(name, path=call.env.get("PATH")) is None])
    if missing:
        return SlurmFacts(missing)
    version = call("sbatch", "--version").out.strip()
    before = time.perf_counter()
    config, sinfo = call("scontrol", "show", "config"), call(*SINFO, "-a")  # hidden partitions, too
    for name, ended in (("scontrol", config), ("sinfo", sinfo)):
        if ended.code != 0:
            return SlurmFacts((), version, f"{name}: {ended.how}")
    answer_s = (time.perf_counter() - before) / 2
    known = config_of(config.out)
    times = times_of(call("sinfo", "-h", "-a", "-o", "%R|%l").out)
    found = SlurmFacts((), version, "", answer_s, known, tuple(partitions_of(sinfo.out)), times)
    whose = _whose(call, known)
    if not whose:
        return found
    told = call("sacctmgr", "-n", "-P", "show", "associations", *whose, "format=account,qos")
    return replace(
        found,
        most_submitted=_most_submitted(call, whose),
        associations=associations_of(told.out.splitlines()) if told.code == 0 else None,
    )


def config_of(text: str) -> dict[str, str]:
    """`Name = value` lines."""
    pairs = [line.partition("=") for line in text.splitlines()]
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def times_of(text: str) -> dict[str, float]:
    """ "main|1-00:00:00" lines."""
    found: dict[str, float] = {}
    for name, _, limit in (line.partition("|") for line in text.splitlines()):
        with contextlib.suppress(BadValueError):  # infinite
            found[name] = sbatch_time_s(limit)
    return found


def _most_submitted(call: Call, whose: Sequence[str]) -> int | None:
    """Of all QOS the least counts: which of them a job gets is not known here."""
    told = [
        call("sacctmgr", "-n", "-P", "show", "associations", *whose, "format=maxsubmitjobs").out,
        call("sacctmgr", "-n", "-P", "show", "qos", "format=maxsubmitjobsperuser").out,
    ]
    return min((int(word) for word in " ".join(told).replace("|", " ").split() if word.isdecimal()), default=None)


def _whose(call: Call, config: Mapping[str, str]) -> tuple[str, ...]:
    """Words that name the user's associations; empty where nobody keeps them."""
    if "slurmdbd" not in config.get("AccountingStorageType", ""):
        return ()
    if shutil.which("sacctmgr", path=call.env.get("PATH")) is None:
        return ()
    login = login_of(os.getuid(), nameless="")
    # accounts are of names
    return (f"user={login}", f"cluster={config.get('ClusterName', '')}") if login else ()


def associations_of(lines: Sequence[str]) -> tuple[Association, ...]:
    """ "physics|normal,long" lines."""
    pairs = [line.partition("|") for line in lines if line.strip()]
    return tuple([Association(name, tuple(filter(None, qos.strip("|").split(",")))) for name, _, qos in pairs])
