"""A Slurm cluster as data: its controller, nodes and accounting, and what the wrappers of jobs do there.

Engines call its programs as ever; here those calls are answered, and take simulated time.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.inside.sim import Answer, Calls
from tests.sim import promises
from tests.sim.box import Behaviour, Process, Simulated
from tests.sim.shared_files import SharedFiles

_LEASE_S, _BEAT_S, _KILL_WAIT_S, _LEAD_S = 45.0, 5.0, 30.0, 5.0
"""As the wrapper and Slurm have them."""
_UNREACHABLE = "Unable to contact slurm controller (connect failure)"
_TIMED_OUT = "Batch job submission failed: Socket timed out on send/recv operation"
_SETTING = re.compile(r"^(?:export )?(gd_(?:token|control|grace_s|err)|GPUDECK_(?:TASK|ATTEMPT))=(.*)$", re.MULTILINE)
_OPTION = re.compile(r"^#SBATCH --([\w-]+)=(.*)$", re.MULTILINE)
FAULTS = (
    "power", "cut off", "log disk full", "folder full",
    "preempted", "out of memory", "scancel", "controller away", "controller hangs", "forgets",
    "folder hangs",
)  # fmt: skip
"""Of a cluster, at a piece of an engine."""
ANSWERS = ("reply lost", "submission lost", "late", "busy", "no", "no sbatch")
"""What may become of an sbatch that should have taken a job."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    nodes: int
    lag_s: float
    """The most that the shared folder is behind."""
    tells: bool
    """The kernel of the engines' box tells of what arrives there."""
    wait_s: float
    """The most that a job waits where a node is free."""
    kept_s: float
    """So long the queue shows what is over."""
    stale_s: float
    """So old may be what squeue answers from."""
    accounts_s: float | None
    """How late sacct is; None: there are no accounts."""
    comments: bool
    """These keep comments."""
    answers: Mapping[str, float]
    """How likely each of `ANSWERS` is."""
    odds: Mapping[str, float]
    """How likely each of `FAULTS` is at each piece of an engine."""


@dataclass(eq=False, slots=True)
class SimJob:
    """One job, or element of an array. Times: the wall clock's."""

    id: str
    script: str
    """Of an element the path of its script."""
    options: Mapping[str, str]
    since: float = 0.0
    """When it was taken."""
    state: str = "PENDING"
    reason: str = "Priority"
    nodes: tuple[str, ...] = ()
    """The wrapper is on the first."""
    fate: str = ""
    """How Slurm has decided to end it."""
    code: int = 0
    over_at: float | None = None
    said: Mapping[str, str] = field(default_factory=dict[str, str])
    """What its wrapper is told by its script."""
    process: Process | None = None
    wrapper: bool = False
    """It lives."""
    told: str = ""
    asked: bool = False
    stop: str = ""
    beat: float = 0.0
    kill_at: float | None = None
    lost: bool = False
    unsent: dict[str, str] = field(default_factory=dict[str, str])
    """What it has written while its node was cut off, by kind."""

    @property
    def over(self) -> bool:
        return self.over_at is not None

    @property
    def node(self) -> str:
        """Where its wrapper is."""
        return self.nodes[0] if self.nodes else ""

    @property
    def deck(self) -> str:
        return _said(self.script)["gd_control"].split("/")[-2]

    @property
    def row(self) -> str:
        comment, name = (self.options.get(key, "").strip('"') for key in ("comment", "job-name"))
        return f"{self.id}|{self.state}|{self.reason}|N/A|{','.join(self.nodes)}|{comment}|{name}"

    def path(self, kind: str) -> str:
        return f"{self.said['gd_control']}/{self.said['gd_token']}.{kind}"


class Clustered(Simulated):
    """Where engines run, and beside it nodes on which attempts do: these outlive a reboot of it."""

    slurm: SimSlurm

    def __init__(self, seed: int, gpus: int) -> None:
        super().__init__(seed, gpus)
        self.lives_of_engines = 0
        self.waiting: dict[str, int | None] = {}
        """Tokens whose leader waits for ranks that do not answer, and how it would have ended."""

    def go_down(self) -> None:
        self.boot = f"boot-{int(self.boot.split('-')[1]) + 1}"
        self.say("the login node goes down")
        before_s, self.now = self.now - 10.0, 10.0
        self.no_room = None if self.no_room is None else self.now
        self._wall_s += before_s
        self._events = [(at - before_s, count, do) for at, count, do in self._events]
        for process in self.processes.values():
            process.boot, process.began = self.boot, process.began - before_s

    def exits(self, process: Process, code: int) -> None:
        if process.token in self.frozen:
            self.frozen[process.token] = code
        elif process.token in self.waiting and code < 128:
            self.waiting[process.token] = code
        else:
            super().exits(process, code)
            process.elsewhere = process.elsewhere and process.leader  # srun ends with its ranks

    def goes(self, process: Process) -> None:
        lived = process.tree
        super().goes(process)
        if lived and not process.tree:
            self.slurm.gone(process)

    def signal(self, process: Process, number: int) -> None:
        if number == 9:
            self.frozen.pop(process.token, None)
        super().signal(process, number)

    def thaw(self, process: Process, held: str = "frozen") -> None:
        """It goes on; *held*: what it was in."""
        if (code := getattr(self, held).pop(process.token, None)) is not None:
            self.exits(process, code)


class SimSlurm:
    """*called* is told (who, program) of each query, *submitting* the scripts of each submission. See `Simulated` for
    the rest."""

    def __init__(
        self,
        box: Clustered,
        plan: ClusterPlan,
        behaviour: Callable[[str, str, int], Behaviour],
        called: Callable[[str, str], None],
        submitting: Callable[[Sequence[Mapping[str, str]], bool], None],
    ) -> None:
        box.slurm = self
        self.box, self.plan, self.random = box, plan, box.random
        self.files = SharedFiles(box, plan.lag_s, tells=plan.tells)
        self.files.before, self.files.after = self._beat_all, self._look_all
        self.jobs: dict[str, SimJob] = {}
        """Those that the controller knows."""
        self._all: list[SimJob] = []
        self._behaviour, self._called, self._submitting = behaviour, called, submitting
        self.nodes = [f"node{number}" for number in range(1, plan.nodes + 1)]
        self.down: dict[str, str] = {}
        """Nodes that are not there, and why."""
        self.unlogged: set[str] = set()
        """Nodes that can write no log."""
        self.controller = ""
        """Why it does not answer."""
        self._last_id = 10
        self._picture = (-1e9, "")
        self.took_s = 0.0
        self.calm = False
        """Nothing goes wrong any more."""

    @property
    def now(self) -> float:
        return self.box.instant().wall_s

    # -- its programs

    def run_program(
        self, argv: Sequence[str], environ: Mapping[str, str], *, timeout_s: float, stdin: str = os.devnull
    ) -> Answer:
        """`slurm.calls.run_program`; what it took is added up."""
        took_s = self.random.choice([0.01, 0.05, 1.0])
        answer = self._submit(stdin) if argv[:2] == ("sbatch", "--parsable") else self._answer(argv, environ["USER"])
        if answer.code is None or (self.controller == "hangs" and argv[0] != "sacct"):
            answer, took_s = Answer(None, "", f"no answer in {timeout_s:g} s"), timeout_s
        self.took_s += took_s
        return Answer(answer.code, answer.out, answer.err, took_s)

    def _answer(self, argv: Sequence[str], user: str) -> Answer:
        program = argv[0]
        if program in ("squeue", "sacct"):
            self._called(user, program)
        if program == "sacct":
            off = self.plan.accounts_s is None
            return Answer(1, "", "Slurm accounting storage is disabled") if off else Answer(0, self._accounts(argv[-1]))
        if self.controller:
            return Answer(1, "", f"{program}: error: {_UNREACHABLE}")
        match program, argv[1]:
            case "squeue", _:
                if self.now - self._picture[0] > self.plan.stale_s or self.calm:
                    self._picture = self.now, "\n".join(job.row for job in self.jobs.values())
                return Answer(0, self._picture[1])
            case "scancel", _:
                for job_id in argv[1:]:
                    promises.of_cancels(user.partition(" ")[0], self.jobs.get(job_id), self.now)
                    self.cancel(self.jobs.get(job_id), "CANCELLED")
                return Answer(0)
            case "scontrol", "update":
                if (job := self.jobs.get(argv[2].removeprefix("JobId="))) is not None:
                    job.options = {**job.options, "exclude": ""}
                return Answer(0)
            case "scontrol", "show":
                return Answer(0, "MessageTimeout = 10 sec\n") if argv[2] == "config" else self._shown(argv[3])
            case _:  # sbatch --test-only
                unable = self._unable(_options(Path(argv[2]).read_text()))
                return Answer(1, "", f"allocation failure: {_NO_NODE}") if unable else Answer(0)

    def _shown(self, job_id: str) -> Answer:
        job = self.jobs.get(job_id)
        if job is None:
            return Answer(1, "", "slurm_load_jobs error: Invalid job id specified")
        return Answer(0, f"JobId={job_id}\n   JobState={job.state} Reason=None\n   Comment={job.options['comment']}\n")

    def _accounts(self, ids: str) -> str:
        wanted = ids.split(",")
        lines: list[str] = []
        for job in self._all:
            if job.id in wanted:
                known = job.over_at is not None and self.now >= job.over_at + (self.plan.accounts_s or 0.0)
                state = (job.fate or job.state) if known else "RUNNING" if job.node else "PENDING"
                state = {"CANCELLED": "CANCELLED by 1000", "DROPPED": "CANCELLED"}.get(state, state)
                comment, name = job.row.split("|")[5:]
                kept = comment if self.plan.comments else ""
                lines.append(f"{job.id}|{state}|{','.join(job.nodes)}|{kept}|{name}")
        return "\n".join(lines)

    def _unable(self, options: Mapping[str, str]) -> bool:
        """There are fewer nodes than it asks for."""
        return len({*self.nodes} - {*options.get("exclude", "").split(",")}) < int(options["nodes"])

    def _submit(self, stdin: str) -> Answer:
        text = Path(stdin).read_text()
        options = _options(text)
        scripts = [text]
        if "array" in options:
            count = int(options["array"].partition("-")[2].partition("%")[0]) + 1
            scripts = [shlex.split(line)[0] for line in text.splitlines()[-count:]]
        fate = self._fate(options)
        taken = fate in ("", "reply lost", "late", "submission lost")
        self._submitting([_said(script) for script in scripts], taken)
        self._last_id += 1
        number = str(self._last_id)
        self.box.say(f"sbatch of {len(scripts)}: {fate or number}")
        if fate in ("", "reply lost"):
            self._accept(number, scripts, options)
        elif fate == "late":
            self.box.after(self.random.uniform(0.1, 9.0), lambda: self._accept(number, scripts, options))
        return {
            "": Answer(0, f"{number}\n"),
            "busy": Answer(1, "", "sbatch: error: Batch job submission failed: Resource temporarily unavailable"),
            "away": Answer(1, "", f"sbatch: error: Batch job submission failed: {_UNREACHABLE}"),
            "no": Answer(1, "", f"sbatch: error: Batch job submission failed: {_NO_NODE}"),
            "no sbatch": Answer(127, "", "sbatch: No such file or directory"),
        }.get(fate) or self.random.choice([Answer(1, "", f"sbatch: error: {_TIMED_OUT}"), Answer(None)])

    def _fate(self, options: Mapping[str, str]) -> str:
        if self.controller == "hangs":
            return self.random.choice(["submission lost", "late"])
        if self.controller:
            return "away"
        if self._unable(options):
            return "no"
        chosen = [name for name, odds in self.plan.answers.items() if self.random.random() < odds]
        return chosen[0] if chosen and not self.calm else ""

    def _accept(self, number: str, scripts: Sequence[str], options: Mapping[str, str]) -> None:
        if self.controller:
            self.box.after(self.random.uniform(1.0, 9.0), lambda: self._accept(number, scripts, options))
            return
        if self._unable(options):
            return
        for index, script in enumerate(scripts):
            job = SimJob(f"{number}_{index}" if "array" in options else number, script, options, self.now)
            self.jobs[job.id] = job
            self._all.append(job)
            self.box.after(self.random.uniform(0.0, self.plan.wait_s), lambda job=job: self._begin(job))

    # -- the life of a job

    def _begin(self, job: SimJob) -> None:
        if job.state != "PENDING" or self.jobs.get(job.id) is not job:
            return
        excluded = job.options.get("exclude", "").split(",")
        free = [node for node in self.nodes if node not in self.down and node not in excluded]
        count = int(job.options["nodes"])
        if self.controller or len(free) < count:
            job.reason = "ReqNodeNotAvail, UnavailableNodes" if len(free) < count else job.reason
            self.box.after(5.0, lambda: self._begin(job))
            return
        job.state, job.reason, job.nodes = "RUNNING", "None", tuple(self.random.sample(free, count))
        self.box.after(self.random.choice([0.0, 0.1, 3.0]), lambda: self._run(job))

    def _run(self, job: SimJob) -> None:
        """Its wrapper begins on the node."""
        if job.over or job.fate or self.down.keys() & {*job.nodes}:
            return
        job.said = _said(job.script)
        if not self.files.create(job.path("claim"), f"{job.id}\n"):
            self.box.say(f"job {job.id} finds its claim taken")
            self._over(job, 125)
            return
        self._write(job, "began", f"job={job.id}\nnodes={','.join(job.nodes)}\nwall={self.now:.3f}\n")
        if job.node in self.unlogged:
            self.box.say(f"job {job.id} can write no log")
            self._write(job, "ended", f"code=spawn-log\nwall={self.now:.3f}\nstopped=0\n")
            self._over(job, 125)
            return
        job.wrapper = True
        token, deck = job.said["gd_token"], job.said["gd_control"].split("/")[-2]
        task, attempt = job.said["GPUDECK_TASK"], int(job.said["GPUDECK_ATTEMPT"])
        self.box.say(f"job {job.id} runs on {','.join(job.nodes)}")
        how = self._behaviour(deck, task, attempt)
        job.process = self.box.spawn(token, deck, task, attempt, (), how)
        job.process.elsewhere = len(job.nodes) > 1 and job.process.leader
        if limit := job.options.get("time"):
            grace_s, limit_s = float(job.said["gd_grace_s"]), 60.0 * float(limit)
            self.box.after(max(0.0, limit_s - grace_s - _LEAD_S), lambda: self._told(job, "limit", grace_s))
            self.box.after(limit_s, lambda: self.cancel(job, "TIMEOUT"))

    def gone(self, process: Process) -> None:
        """Nothing of a tree lives: its wrapper writes so, and ends."""
        job = next((job for job in self._all if job.process is process), None)
        if job is None or not job.wrapper:
            return
        code = process.code or 0
        told = f"signal={job.told}\n" if job.told else ""
        lines = f"code={code}\nwall={self.now:.3f}\nstopped={int(job.asked)}\n{told}"

        def write(tries: int = 12) -> None:
            if not job.wrapper:
                return
            if self._write(job, "ended", lines) or tries == 1:
                self.box.after(self.random.choice([0.0, 0.2]), end)
            else:
                self.box.say(f"job {job.id} cannot write its end")
                self.box.after(5.0, lambda: write(tries - 1))

        def end() -> None:
            if job.wrapper:
                job.wrapper = False
                self._over(job, code)

        self.box.after(self.random.choice([0.0, 0.05]), write)

    def _over(self, job: SimJob, code: int, after_s: float | None = None) -> None:
        """Its script has ended; the controller says so after a while."""
        job.code = code
        final = job.fate or ("FAILED" if code else "COMPLETED")

        def told() -> None:
            if not job.over:
                job.state, job.over_at = final, self.now
                self.box.after(self.plan.kept_s, lambda: self._forget(job))

        job.state = "COMPLETING"
        self.box.after(self.random.choice([0.0, 0.5, 5.0]) if after_s is None else after_s, told)

    def _forget(self, job: SimJob) -> None:
        if self.jobs.get(job.id) is job:
            del self.jobs[job.id]

    def cancel(self, job: SimJob | None, fate: str) -> None:
        """Slurm ends it: TERM, and KILL for all that is there 30 s later."""
        if job is None or job.over or job.fate or job.state == "COMPLETING":
            return
        job.fate = fate
        self.box.say(f"job {job.id}: {fate}")
        if job.state == "PENDING" or not job.wrapper:
            self._rid(job)
            return
        job.state = "COMPLETING"
        self._told(job, "TERM", float(job.said["gd_grace_s"]))
        self.box.after(_KILL_WAIT_S, lambda: self._murder(job))

    def _rid(self, job: SimJob) -> None:
        """No wrapper is there; ranks may be, until Slurm has killed them. It says that it is over then."""
        ranks, job.state = job.process is not None and job.process.elsewhere, "COMPLETING"

        def gone() -> None:
            if job.process is not None:
                job.process.elsewhere = False
            self._over(job, 0, 0.0)

        self.box.after(self.random.uniform(0.0, _KILL_WAIT_S) if ranks else 0.0, gone)

    def _murder(self, job: SimJob, after_s: float | None = None) -> None:
        """KILL, for its wrapper too: nothing is written."""
        if job.process is not None:
            job.process.elsewhere = False
        if job.wrapper and job.process is not None:
            job.wrapper = False
            self.box.signal(job.process, 9)
            self._over(job, 137, after_s)

    # -- a wrapper

    def _write(self, job: SimJob, kind: str, text: str) -> bool:
        """Whether it could be."""
        if self.down.get(job.node) == "cut off":
            job.unsent[kind] = text
            return True
        return self.files.write(job.path(kind), text)

    def _told(self, job: SimJob, what: str, grace_s: float) -> None:
        if job.wrapper and job.node not in self.down:
            job.told = what
            self._stop(job, 15, grace_s)

    def _stop(self, job: SimJob, signal: int, grace_s: float) -> None:
        process, kill_at = job.process, self.now + grace_s
        if process is None or not job.wrapper:
            return
        if job.kill_at is None:
            job.asked = job.asked or process.leader
            self.box.thaw(process)
            self.box.signal(process, signal)
        if job.kill_at is None or kill_at < job.kill_at:
            job.kill_at = kill_at
            self.box.after(grace_s, lambda: job.wrapper and self.box.signal(process, 9))

    def _heed(self, job: SimJob) -> None:
        """It looks at what engines wrote for it."""
        if not job.wrapper or job.node in self.down:
            return
        if self.files.read(job.path("claim")) not in (job.id, ""):
            return
        if (stop := self.files.read(job.path("stop"))) and stop != job.stop:
            job.stop = stop
            number = {"KILL": 9, "INT": 2}.get(stop.split()[0], 15)
            self._stop(job, number, float(stop.split()[1]))

    def _wrapped(self) -> list[SimJob]:
        return [job for job in self._all if job.wrapper and job.process is not None]

    def _beat_all(self) -> None:
        for job in self._wrapped():
            seen_at = (self.now - self.plan.lag_s / 2) // _BEAT_S * _BEAT_S
            if job.node not in self.down and seen_at != job.beat and not self.files.full:
                job.beat = seen_at
                self.files.beat(job.path("alive"), seen_at)

    def _look_all(self) -> None:
        """Something may have been written for them."""
        for job in self._wrapped():
            stop = job.path("stop")
            if os.path.exists(stop) and self.files.read(stop) != job.stop:
                self.box.after(self.random.random() + self.files.lag(), lambda job=job: self._heed(job))
            if not job.lost and not os.path.exists(job.path("claim")):
                job.lost = True
                self.box.after(_LEASE_S, lambda job=job: self._stop(job, 9, 0.0))

    # -- what goes wrong

    def go_wrong(self, fault: str) -> None:
        """One of `FAULTS`."""
        running = [job for job in self.jobs.values() if job.wrapper and not job.fate]
        match fault:
            case "power" | "cut off":
                self._take(self.random.choice(self.nodes), fault)
            case "log disk full":
                node = self.random.choice(self.nodes)
                self.unlogged.add(node)
                self.box.after(self.random.choice([20.0, 100.0]), lambda: self.unlogged.discard(node))
            case "folder full" if not self.files.full:
                self.box.say("the shared folder is full")
                self.files.full = True
                for job in self._wrapped():
                    self.box.after(_LEASE_S, lambda job=job: self._freeze(job))
                self.box.after(self.random.choice([5.0, 30.0, 100.0]), self._clear)
            case "preempted" | "scancel" if running:
                self.cancel(self.random.choice(running), "PREEMPTED" if fault == "preempted" else "CANCELLED")
            case "scancel" if self.jobs:
                self.cancel(self.random.choice(list(self.jobs.values())), "CANCELLED")
            case "out of memory" if running:
                self._exhaust(self.random.choice(running))
            case "controller away" | "controller hangs" if not self.controller:
                self.controller = fault.split()[1]
                self.box.say(fault)
                self.box.after(self.random.choice([5.0, 40.0, 150.0]), self._back)
            case "forgets":
                self._lose_state()
            case "folder hangs":
                self.files.hangs_until = self.now + self.random.choice([1.0, 15.0, 60.0])
                self.box.say(fault)
            case _:
                pass

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self.calm = True
        self._back()
        self._clear()
        self.unlogged.clear()
        self.files.hangs_until = 0.0
        for node in list(self.down):
            self._return(node)

    def _clear(self) -> None:
        """The shared folder has space again: wrappers write that they live, and what stood still goes on."""
        self.files.full = False
        for job in self._wrapped():
            if job.node not in self.down and job.process is not None:
                self.box.thaw(job.process)

    def _back(self) -> None:
        self.controller = ""

    def _exhaust(self, job: SimJob) -> None:
        job.fate = "OUT_OF_MEMORY"
        self.box.say(f"job {job.id}: {job.fate}")
        with open(job.said["gd_err"], "a") as log:
            log.write(f"slurmstepd: error: Detected 1 oom_kill event in StepId={job.id}.batch.\n")
        if self.random.random() < 0.3:
            self._murder(job)
        elif job.process is not None:
            self.box.signal(job.process, 9)

    def _lose_state(self) -> None:
        """The controller begins anew, and gives out its numbers again; nodes end what it does not know."""
        self.box.say("the controller forgets all jobs")
        jobs, self.jobs, self._last_id = list(self.jobs.values()), {}, 10
        for job in jobs:
            if not job.over:
                job.fate, job.over_at = "DROPPED", self.now
                self.box.after(self.random.uniform(1.0, 30.0), lambda job=job: self._murder(job))

    def _take(self, node: str, why: str) -> None:
        if node in self.down:
            return
        self.down[node] = why
        self.box.say(f"{node} is gone: {why}")
        noticed_s = self.random.uniform(5.0, 60.0)
        for job in [job for job in self._all if node in job.nodes and not job.over]:
            self.box.after(noticed_s, lambda job=job: self._node_failed(job))
            if node != job.node:  # its ranks there are gone, or stand still, and the others wait for them
                if job.process is not None and job.process.leader:
                    job.process.elsewhere = False
                    self.box.waiting.setdefault(job.process.token, None)
            elif why == "power":
                if job.process is not None and not job.process.tree:
                    self.files.lose(job.path("ended"), f"code={job.process.code}\nwall={self.now}\n")
                if job.wrapper and job.process is not None:
                    ranks, job.wrapper = job.process.elsewhere, False
                    self.box.signal(job.process, 9)
                    job.process.elsewhere = ranks
            else:
                self.box.after(_LEASE_S, lambda job=job: self._freeze(job))
        self.box.after(self.random.choice([20.0, 100.0, 400.0]), lambda: self._return(node))

    def _node_failed(self, job: SimJob) -> None:
        waits = job.process is not None and job.process.token in self.box.waiting
        if job.over or not (waits or self.down.keys() & {*job.nodes} or not job.wrapper):
            return
        if job.wrapper and job.node not in self.down:
            self.cancel(job, "NODE_FAIL")
        else:
            job.fate = "NODE_FAIL"
            self._rid(job)

    def _freeze(self, job: SimJob) -> None:
        """It stands still: it cannot see its claim."""
        unseen = self.files.full or self.down.get(job.node) == "cut off"
        if job.wrapper and job.process is not None and unseen:
            self.box.frozen.setdefault(job.process.token, None)

    def _return(self, node: str) -> None:
        if self.down.pop(node, "") != "cut off":
            return
        self.box.say(f"{node} is back")
        for job in [job for job in self._all if node in job.nodes[1:] and not job.fate and job.process is not None]:
            if job.process.leader and job.process.token in self.box.waiting:
                job.process.elsewhere = True
                self.box.thaw(job.process, "waiting")
        for job in [job for job in self._all if job.node == node]:
            for kind, text in job.unsent.items():
                self.files.write(job.path(kind), text)
            job.unsent = {}
            if job.wrapper and job.process is not None:
                if self.files.read(job.path("claim")) == job.id:
                    self.box.thaw(job.process)
                    self._heed(job)
                if job.over:  # the controller wants nothing of it any more
                    self.box.after(self.random.uniform(0.0, 10.0), lambda job=job: self._murder(job))


_NO_NODE = "Requested node configuration is not available"


class SimCalls(Calls):
    """`slurm.calls.Calls` without threads: what a call does it does at once, and its answer comes when it is due."""

    slurm: SimSlurm

    def __init__(self, loop: Any, environ: Mapping[str, str]) -> None:
        super().__init__(loop, environ)
        self._loop = loop
        self._closed = False

    def work(self, work: Callable[[], Any], done: Callable[[Any], None], *, timeout_s: float) -> None:
        slurm = self.slurm

        def begin() -> None:
            if not self._closed:
                slurm.took_s = 0.0
                result = slurm.files.do(work)
                self._loop.call_later(slurm.took_s, finish, result)

        def finish(result: Any) -> None:
            if not self._closed:
                done(result)

        self._loop.call_later(min(slurm.files.takes_s(), timeout_s), begin)

    def close(self) -> None:
        self._closed = True

    def leave(self, argv: Sequence[str]) -> None:
        self.slurm.run_program(argv, self.environ, timeout_s=1.0)


def _options(text: str) -> dict[str, str]:
    return {name: value.strip('"') for name, value in _OPTION.findall(text)}


def _said(script: str) -> dict[str, str]:
    """What stands before the wrapper in a script, or in the file of that name."""
    if script.startswith("/"):
        with open(script) as file:
            script = file.read()
    return {name: value.strip("'") for name, value in _SETTING.findall(script.partition("\ngd_files=")[0])}
