"""Jobs through Slurm: 1,000 no-op tasks against sbatch in a loop; how often Slurm is asked; 5,000 jobs known; from a
job's end to its dependent's sbatch.

The cluster is the tests' own (tests/slurm/cluster), started on this host and gone afterwards. sbatch, squeue and the
others stand behind wrappers on the PATH that write down when they were called.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from common import GPUDECK, Report, disk, folder_on, matrix_deck, options, percentile, write_deck

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from tests.slurm.rig import Cluster, running_cluster

QUERIES = ("squeue", "sacct", "sinfo", "scontrol")
CORES = 16
"""Of each node: jobs at once are twice as many."""
ROUNDS = 3
STEADY_S = 60.0
_WRAPPER = '#!/bin/bash\necho "$EPOCHREALTIME" >>{log}\nexec {real} "$@"\n'
_SLURM = 'backend = "slurm"\n[slurm]\nmax_submitted = {most}'


class Watched:
    """Slurm's programs, and when each was called."""

    def __init__(self, cluster: Cluster, folder: str) -> None:
        self._folder = Path(folder) / "bin"
        self._folder.mkdir()
        self.env = {**os.environ, **cluster.env, "PATH": f"{self._folder}:{os.environ['PATH']}"}
        for name in ("sbatch", *QUERIES):
            self._wrap(name, cluster.call("which", name))

    def calls(self, *names: str) -> list[float]:
        """Times since the epoch, in order."""
        logs = [self._folder / f"{name}.log" for name in names]
        return sorted(float(line) for log in logs if log.exists() for line in log.read_text().split())

    def _wrap(self, name: str, real: str) -> None:
        path = self._folder / name
        path.write_text(_WRAPPER.format(log=self._folder / f"{name}.log", real=real))
        path.chmod(0o755)


@contextmanager
def engine(folder: str, env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The deck of *folder*, running; killed at the end if it still is."""
    with open(os.path.join(folder, "engine.out"), "wb") as out:
        process = subprocess.Popen(
            (*GPUDECK, "--headless", "tasks.toml", "-q"), cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out,
            stderr=out,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def ours(cluster: Cluster, count: int) -> tuple[float, float]:
    """Seconds for *count* tasks, and how often a second Slurm was asked meanwhile."""
    with folder_on(disk()) as folder:
        deck = _SLURM.format(most=count)
        write_deck(folder, matrix_deck(count, '["true"]', deck=deck))
        watched = Watched(cluster, folder)
        before = time.monotonic()
        with engine(folder, watched.env) as process:
            code = process.wait()
        took_s = time.monotonic() - before
        if code != 0:
            raise RuntimeError(f"exit code {code}\n{Path(folder, 'engine.out').read_text()[-2000:]}")
        return took_s, len(watched.calls(*QUERIES)) / took_s


def by_hand(cluster: Cluster, count: int) -> float:
    """The same jobs from a loop, with the same logs and limits, and a look at the queue every second until all are
    over."""
    with folder_on(disk()) as folder:
        env = {**os.environ, **cluster.env}
        before = time.monotonic()
        for number in range(count):
            words = (
                "sbatch", "--parsable", "--no-requeue", f"--output={folder}/{number}.out",
                f"--error={folder}/{number}.err", "--wrap=true",
            )  # fmt: skip
            subprocess.run(words, env=env, check=True, stdout=subprocess.DEVNULL)
        _until(lambda: not cluster.call("squeue", "-h", "-o", "%i"), 1.0)
        return time.monotonic() - before


def throughput(report: Report, cluster: Cluster, count: int, rounds: int) -> None:
    """The two in turns."""
    mine: list[float] = []
    peer: list[float] = []
    asked: list[float] = []
    for number in range(rounds):
        for side in ("ours", "hand") if number % 2 == 0 else ("hand", "ours"):
            if side == "hand":
                peer.append(by_hand(cluster, count))
            else:
                took_s, a_second = ours(cluster, count)
                mine.append(took_s)
                asked.append(a_second)
    report.row(f"{count:,} no-op tasks, sbatch in a loop", mine, peer, "s", "<= 1.3 x")
    report.row("status queries meanwhile", asked, None, "1/s", "<= 0.5 1/s")


def known(report: Report, cluster: Cluster, count: int) -> None:
    """CPU of an engine whose jobs all wait or run for long, once nothing happens any more."""
    with folder_on(disk()) as folder:
        write_deck(folder, matrix_deck(count, '["sleep", "3600"]', deck=_SLURM.format(most=count)))
        watched = Watched(cluster, folder)
        with engine(folder, watched.env) as process:
            _until(lambda: _listed(cluster) >= count, 2.0)
            time.sleep(STEADY_S / 4)  # what followed from the last submission
            before, began, asked = _cpu_s(process.pid), time.monotonic(), len(watched.calls(*QUERIES))
            time.sleep(STEADY_S)
            span_s = time.monotonic() - began
            alone, whole = (100 * (b - a) / span_s for a, b in zip(before, _cpu_s(process.pid), strict=True))
            asked = len(watched.calls(*QUERIES)) - asked
        cluster.call("scancel", "-u", str(os.getuid()), "-s", "KILL")
        cluster.cancel()
    report.row(f"{count:,} jobs known: engine", alone, None, "% of a core", "<= 5 %")
    report.row(f"{count:,} jobs known: with what it runs", whole, None, "% of a core", "")
    report.row(f"{count:,} jobs known: status queries", asked / span_s, None, "1/s", "<= 0.5 1/s")


def chain(report: Report, cluster: Cluster, length: int) -> None:
    """Tasks that need one another: from what one wrote last to the sbatch of the next."""
    with folder_on(disk()) as folder:
        text = f"[deck]\n{_SLURM.format(most=200)}\n"
        for number in range(length):
            needs = f'needs = ["link-{number - 1}"]\n' if number else ""
            command = f'command = "echo $EPOCHREALTIME >> {folder}/ends"\n'
            text += f'[[task]]\nname = "link-{number}"\ngpus = 0\n{needs}{command}'
        write_deck(folder, text)
        watched = Watched(cluster, folder)
        env = {**watched.env, "SHELL": "/bin/bash"}
        with engine(folder, env) as process:
            if code := process.wait():
                raise RuntimeError(f"exit code {code}\n{Path(folder, 'engine.out').read_text()[-2000:]}")
        ends = [float(line) for line in Path(folder, "ends").read_text().split()]
        gaps = [sent - ended for ended, sent in zip(ends, watched.calls("sbatch")[1:], strict=False)]
    report.row("a job's end to its dependent's sbatch, median", statistics.median(gaps), None, "s", "<= 1 s")
    report.row("the longest", percentile(gaps, 100), None, "s", "")


def _listed(cluster: Cluster) -> int:
    return len(cluster.call("squeue", "-h", "-r", "-o", "%i").splitlines())


def _cpu_s(pid: int) -> tuple[float, float]:
    """CPU time of the process alone, and with its children that have ended or still run."""
    process = psutil.Process(pid)
    own = process.cpu_times()
    alone = own.user + own.system
    below = sum(sum(each.cpu_times()[:2]) for each in process.children(recursive=True))
    return alone, alone + own.children_user + own.children_system + below


def _until(condition: Callable[[], bool], every_s: float) -> None:
    while not condition():
        time.sleep(every_s)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the cluster is stopped on the way out
    given = options(__doc__)
    report = Report(given)
    with running_cluster(NODES=2, CPUS=CORES, GPUS=0, KILL_WAIT=1) as cluster:
        chain(report, cluster, 5 if given.quick else 20)
        throughput(report, cluster, 100 if given.quick else 1000, given.rounds(ROUNDS))
        known(report, cluster, 300 if given.quick else 5000)
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
