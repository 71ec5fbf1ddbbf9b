"""All checks in their order, each told as soon as it is known."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ..adapters.background import within
from ..adapters.host import cores
from ..attempts.environment import base_environment
from ..core.spec import DeckFile, TaskSpec
from ..decks.cuda_devices import cuda_visible_devices
from ..doctor.programs import look_for_programs
from ..ports import GpuInfo
from ..taskfile.command import shell
from ..taskfile.placeholders import fill_shell, without_markers
from ..text import plural
from . import gpus as cards
from . import host, isolation, slurm
from . import python as inside_python
from .child import Ended, run
from .containers import check_containers
from .finding import Finding, fail, ok, warn
from .slurm_trial import check_trial, try_job
from .subject import Interpreter, Subject, check_given, choose_gpus, task_name

_FILES_S = 5.0


def check_programs(tasks: Sequence[TaskSpec], base: Mapping[str, str], *, here: bool) -> Iterator[Finding]:
    """A file server that does not answer is no missing file. *here*: see `look_for_programs`."""
    try:
        missing = within(_FILES_S, partial(look_for_programs, tasks, base, here=here))
    except TimeoutError:
        missing = []
    yield from missing or [ok("command", "programs and scripts that the commands name are there")]


_LIMIT_S = 300.0


def run_own(file: DeckFile, python: Interpreter) -> Iterator[Finding]:
    """Each command in the task file's folder, one after the other."""
    known = {"python": python.path, "log_dir": file.settings.log_dir}
    for command in file.own_checks.run:
        text = fill_shell(command, lambda name: known[name])
        ended = run([shell(), "-c", text], env=python.env, cwd=os.path.dirname(file.path), limit_s=_LIMIT_S)
        yield check_own(without_markers(command), ended)


def check_own(command: str, ended: Ended) -> Finding:
    if ended.code == 0:
        return ok("own check", command)
    return fail("own check", f"{command}: {ended.how}", "[doctor] run in the task file has it")


_MOST_ON_CPU = 2
"""Processes that stand for GPUs where there are none."""
_MOST_REQUESTS = 20
"""Kinds of jobs that sbatch is asked about."""


@dataclass(frozen=True, slots=True)
class _Scene:
    """What all checks look at."""

    subject: Subject
    gpus: cards.Gpus
    chosen: tuple[GpuInfo, ...]
    """Of the box, those that tasks get; or none,"""
    trouble: str
    """and why they cannot be had."""
    environ: Mapping[str, str]
    ranks: int
    inside: bool
    """Within a running task."""
    cluster: bool
    """Tasks run on a cluster: of this box only what the engine needs is looked at."""

    def visible(self, gpus: Sequence[GpuInfo]) -> str:
        """The CUDA_VISIBLE_DEVICES of a task on these GPUs."""
        inherited = self.environ.get("CUDA_VISIBLE_DEVICES")
        return cuda_visible_devices([gpu.uuid for gpu in gpus], self.gpus.inventory, inherited=inherited)

    def is_first(self, python: Interpreter) -> bool:
        return python is self.subject.interpreters[0]


def examine(subject: Subject, environ: Mapping[str, str], *, ranks: int = 0) -> Iterator[Finding]:
    """Every check; what hangs is given up, and what fails keeps no other from being made. *ranks*: of a distributed
    training to try; 0: none."""
    inside = bool(task_name(environ))
    if not inside:
        yield _task_file(subject)
    cluster = subject.settings.backend == "slurm" and not inside
    gpus = cards.look_at(subject.settings, environ)
    none = (), ""  # those of a cluster are elsewhere
    chosen, trouble = none if cluster else choose_gpus(subject.settings, gpus.inventory, environ, inside=inside)
    scene = _Scene(subject, gpus, chosen, trouble, environ, ranks, inside, cluster)
    if not cluster:
        yield from _gpus(scene)
    for python in subject.interpreters:
        yield from _python(scene, python)
    yield from _host(scene)
    if subject.file is not None:
        base = base_environment(scene.environ)
        yield from check_programs(subject.tasks, base, here=not scene.cluster)
        yield from check_containers(subject.tasks, subject.settings, base)
        yield from run_own(subject.file, subject.interpreters[0])


def _task_file(subject: Subject) -> Finding:
    name = "task file"
    if not subject.path:
        return warn(name, "none here or above: the box alone is checked", "gpudeck init writes one")
    problems = [*subject.problems, *(subject.file.later if subject.file is not None else ())]
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return fail(name, problems[0] + more, "gpudeck check tells all")
    return ok(name, f"{subject.path}: {plural(len(subject.tasks), 'task')}")


def _gpus(scene: _Scene) -> Iterator[Finding]:
    gpus, chosen, subject = scene.gpus, scene.chosen, scene.subject
    yield from cards.check_driver(gpus)
    if scene.inside:
        yield from check_given(gpus, chosen, scene.trouble, scene.environ)
    else:
        gpu_tasks = any(task.resources.gpus != 0 for task in subject.tasks)
        yield cards.check_detection(gpus, chosen, scene.trouble, gpu_tasks=gpu_tasks)
    yield from cards.check_cards(gpus, chosen, subject.settings)
    yield from cards.check_models(chosen)
    yield from cards.check_links(chosen)
    yield from cards.check_mig(gpus)
    yield from cards.check_persistence(gpus)
    yield from cards.check_memory(gpus, chosen)


def _python(scene: _Scene, python: Interpreter) -> Iterator[Finding]:
    """What one interpreter can do; isolation is proven with the first."""
    subject = scene.subject
    imports = subject.file.own_checks.imports if subject.file is not None else ()
    real = [gpu for gpu in scene.chosen if not gpu.simulated] if python.gpu_tasks or not python.tasks else []
    seeing = python if scene.inside else python.seeing(scene.visible(real))
    ended = inside_python.look_inside(seeing, imports, _values(subject))
    gangs = any(task.resources.gpus not in (0, 1) for task in subject.tasks)
    wanted = inside_python.Wanted(len(real), any(gpu.mig for gpu in real), gangs)
    yield from inside_python.check_python(python, ended, wanted, imports)
    if scene.is_first(python) and not scene.inside and not scene.cluster:
        yield from isolation.check_isolation(isolation.look_from_each(python, _places(scene)))
    if not scene.ranks:
        return
    if inside_python.has_torch(ended):
        yield from _distributed(scene, python, real if inside_python.sees_gpus(ended) else [])
    elif python.gpu_tasks or scene.is_first(python):
        yield fail("distributed", f"no torch in {python.path}", f"{python.path} -m pip install torch")


def _distributed(scene: _Scene, python: Interpreter, real: Sequence[GpuInfo]) -> Iterator[Finding]:
    """On GPUs that nobody uses, where there are enough of them. A process sees one MIG instance at most."""
    idle = [gpu for gpu in real if cards.is_idle(scene.gpus, gpu) and not gpu.mig]
    if real and len(idle) < scene.ranks:
        remedy = f"-n {len(idle)} takes GPUs" if idle else "run it again when GPUs are idle"
        text = f"{plural(len(idle), 'idle GPU')} for {scene.ranks} ranks: tried on the CPU"
        yield warn("distributed", text, remedy)
    visible = scene.visible(idle[: scene.ranks]) if len(idle) >= scene.ranks else ""
    yield from inside_python.check_ranks(*inside_python.launch(python, scene.ranks, visible))


def _host(scene: _Scene) -> Iterator[Finding]:
    subject = scene.subject
    settings = subject.settings
    yield host.check_disk(host.disk(settings.log_dir), shared=scene.cluster)
    if not scene.cluster:
        yield host.check_shared_memory(host.disk("/dev/shm"))
    yield from host.check_limits(host.limits())
    if not scene.cluster:
        yield host.check_load(subject.tasks, settings, len(scene.chosen), cores())
    yield host.check_logout(host.logout())
    if not scene.cluster:
        taken = not host.can_bind(host.TORCHRUN_PORT)
        yield from host.check_ports(free=host.can_bind(0), torchrun_taken=taken, trouble=host.name_trouble())
    yield host.check_kernel(host.missing_in_kernel())
    if scene.cluster:
        yield from _cluster(subject.tasks, settings.log_dir, settings.max_submitted, scene.environ)
    else:
        yield slurm.check_slurm(slurm.Call(scene.environ))


def _places(scene: _Scene) -> list[isolation.Place]:
    if not scene.chosen:
        return [isolation.Place(f"CPU {number}", "") for number in range(_MOST_ON_CPU)]
    return [_place(scene, gpu) for gpu in scene.chosen]


def _place(scene: _Scene, gpu: GpuInfo) -> isolation.Place:
    """Something is computed only where nobody is disturbed."""
    if gpu.simulated:
        return isolation.Place(f"SIM {gpu.index}", scene.visible([gpu]))
    how = "touch" if cards.is_idle(scene.gpus, gpu) else "look"
    return isolation.Place(f"GPU {gpu.index}", scene.visible([gpu]), gpu.uuid, how)


def _values(subject: Subject) -> dict[str, str]:
    if subject.file is None:
        return {"lr": "0.1"}
    params = {name: value for task in subject.tasks[:1] for name, value in task.params.items()}
    return {**subject.file.vars, **params}


def _cluster(
    tasks: Sequence[TaskSpec], log_dir: str, max_submitted: int, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Of a deck that runs on Slurm. The last check submits a job of its own, and waits up to a minute for it."""
    call = slurm.Call(environ)
    facts = slurm.look(call)
    yield slurm.check_answer(facts)
    if facts.missing or facts.trouble:
        return
    wanted = slurm.wishes(tasks, log_dir, environ)
    yield from slurm.check_partitions(facts, wanted)
    yield from slurm.check_times(facts, wanted)
    yield from slurm.check_gpus(facts, wanted)
    yield from slurm.check_cores(tasks)
    yield from slurm.check_account(facts, wanted)
    sacct = facts.associations is not None and shutil.which("sacct", path=environ.get("PATH")) is not None
    yield from slurm.check_limits(facts, wanted, max_submitted, sacct=sacct)
    known = [wish for wish in wanted if slurm.partition_of(facts.partitions, wish.partition.split(",")[0])]
    tried = [(wish, _would_take(call, wish)) for wish in known[:_MOST_REQUESTS]]
    yield from slurm.check_requests(tried)
    taken = [wish for wish, ended in tried if ended.code == 0]
    if taken:
        yield from check_trial(try_job(call, taken[0], log_dir), taken[0])


def _would_take(call: slurm.Call, wish: slurm.Wish) -> Ended:
    extra = "".join(f"#SBATCH {line}\n" for line in wish.extra)
    return call("sbatch", "--test-only", *wish.arguments, stdin=f"#!/bin/bash\n{extra}true\n")
