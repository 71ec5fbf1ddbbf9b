"""A real Slurm for tests: tests/slurm/cluster/start.sh in a folder, and what tests do to it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.decks import lives, until

SCRIPTS = Path(__file__).parent / "cluster"
_START_S = 400.0
"""With what has to be installed first."""
_CALL_S = 60.0


class NoClusterError(Exception):
    """Slurm cannot be had here."""


@dataclass(frozen=True)
class Job:
    id: str
    state: str
    reason: str
    name: str
    comment: str
    nodes: str
    partition: str


@dataclass
class Cluster:
    """Slurm in `folder`; `env` lets commands find it. Nodes are node1, node2, …"""

    folder: Path
    options: Mapping[str, str]

    @property
    def conf(self) -> Path:
        return self.folder / "etc" / "slurm.conf"

    @property
    def env(self) -> dict[str, str]:
        """For os.environ.update, a Deck's `env`, or a process of its own."""
        return {"SLURM_CONF": str(self.conf)}

    @property
    def nodes(self) -> list[str]:
        return [f"node{number + 1}" for number in range(int(self.options.get("NODES", "2")))]

    def start(self) -> None:
        """Bring up what does not run. Raises NoClusterError."""
        env = {**_outside(), **self.options}
        call = [str(SCRIPTS / "start.sh"), str(self.folder)]
        done = subprocess.run(
            call, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_START_S, check=False
        )
        if done.returncode != 0:
            said = done.stderr.strip() or done.stdout.strip() or "start.sh said nothing"
            raise NoClusterError(f"no Slurm for the tests: {said}")

    def is_up(self) -> bool:
        """Whether all of it runs."""
        daemons = ("munged", "slurmctld", *(f"slurmd-{node}" for node in self.nodes))
        try:
            if not all(lives(self.pid(daemon)) for daemon in daemons):
                return False
        except FileNotFoundError:  # one that was told to stop
            return False
        states = self.call("sinfo", "-h", "-N", "-p", "main", "-o", "%T", check=False).split()
        return sum(state in ("idle", "mixed", "allocated") for state in states) == len(self.nodes)

    def call(self, *words: str, check: bool = True) -> str:
        """A command of Slurm's; its output without the last line break."""
        done = subprocess.run(
            words, env={**_outside(), **self.env}, capture_output=True, text=True, timeout=_CALL_S, check=False
        )
        assert not check or done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout.rstrip("\n")

    def jobs(self) -> list[Job]:
        """All that the controller knows, ended ones too."""
        lines = self.call("squeue", "-h", "-r", "-t", "all", "-o", "%i|%T|%r|%j|%k|%N|%P").splitlines()
        return [Job(*line.split("|")) for line in lines]

    def active(self) -> list[Job]:
        """Jobs that wait, run, or are on their way out."""
        over = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "BOOT_FAIL"}
        return [job for job in self.jobs() if job.state not in over]

    def submit(self, script: str, *options: str) -> str:
        """A job by hand; its id."""
        return self.call("sbatch", "--parsable", "--output=/dev/null", *options, f"--wrap={script}")

    def cancel(self, *jobs: str) -> None:
        """These; all of them without any named, and waits until they are gone."""
        ids = jobs or tuple({job.id.partition("_")[0] for job in self.active()})
        if ids:
            self.call("scancel", *ids, check=False)
        if not jobs:
            until(lambda: not self.active())

    def kill_controller(self) -> None:
        """kill -9: it writes nothing more."""
        self._kill("slurmctld", signal.SIGKILL)

    def stop_controller(self) -> None:
        """It saves its state first."""
        self._kill("slurmctld", signal.SIGTERM)

    def start_controller(self) -> None:
        self.start()

    def restart_controller(self) -> None:
        self.stop_controller()
        self.start_controller()

    def kill_node(self, node: str) -> None:
        """kill -9 of its slurmd: what its jobs started lives on. `start` brings it back."""
        self._kill(f"slurmd-{node}", signal.SIGKILL)

    @contextlib.contextmanager
    def without(self, daemon: str) -> Iterator[None]:
        """While it is stopped ("slurmctld", "slurmd-node1"): calls to it hang."""
        pid = self.pid(daemon)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def pid(self, daemon: str) -> int:
        """As its pid file says."""
        return int((self.folder / "run" / f"{daemon}.pid").read_text())

    def _kill(self, daemon: str, number: signal.Signals) -> None:
        pid = self.pid(daemon)
        os.kill(pid, number)
        until(lambda: not lives(pid))


@contextlib.contextmanager
def running_cluster(**options: str | int) -> Iterator[Cluster]:
    """A cluster of its own with these options of start.sh (NODES=3, ACCT=1, …), gone afterwards, and when we are
    killed."""
    folder = Path(tempfile.mkdtemp(prefix="gpudeck-slurm-"))
    cluster = Cluster(folder, {name: str(value) for name, value in options.items()})
    end = 'read -r _; "$0" "$1"; rm -rf "$1"'
    guard = subprocess.Popen(
        ["bash", "-c", end, SCRIPTS / "stop.sh", folder], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        cluster.start()
        yield cluster
    finally:
        guard.communicate(timeout=_CALL_S)


def _outside() -> dict[str, str]:
    """The caller's environment without what belongs to another cluster or job."""
    drop = ("SLURM_", "SBATCH_", "SQUEUE_", "SINFO_", "SCANCEL_")
    return {name: value for name, value in os.environ.items() if not name.startswith(drop)}
