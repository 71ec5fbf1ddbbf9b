"""All checks in their order, each told as soon as it is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..attempt.environment import base_environment
from ..headless.text import plural
from ..opening.visible import cuda_visible_devices
from ..ports import GpuInfo
from . import card_checks, gpu_checks, host_checks, host_look, isolation, python_checks
from .finding import Finding, fail, ok, warn
from .gpu_look import Gpus, look_at
from .in_task import check_given, given_gpus, task_name
from .load_checks import check_load
from .own import run_own
from .program_checks import check_programs
from .ranks import check_ranks, launch
from .slurm import check_cluster, check_slurm, look_for_slurm
from .subject import Chosen, Interpreter, Subject, choose_gpus

_MOST_ON_CPU = 2
"""Processes that stand for GPUs where there are none."""


@dataclass(frozen=True, slots=True)
class _Scene:
    """What all checks look at."""

    subject: Subject
    gpus: Gpus
    chosen: Chosen
    environ: Mapping[str, str]
    ranks: int
    inside: bool
    """Within a running task."""
    cluster: bool
    """Tasks run on a cluster: of this box only what the engine needs is looked at."""

    def visible(self, gpus: Sequence[GpuInfo]) -> str:
        """The CUDA_VISIBLE_DEVICES of a task on these GPUs."""
        inherited = self.environ.get("CUDA_VISIBLE_DEVICES")
        return cuda_visible_devices([gpu.uuid for gpu in gpus], self.chosen.inventory, inherited=inherited)

    def is_first(self, python: Interpreter) -> bool:
        return python is self.subject.interpreters[0]


def examine(subject: Subject, environ: Mapping[str, str], *, ranks: int = 0) -> Iterator[Finding]:
    """Every check; what hangs is given up, and what fails keeps no other from being made. *ranks*: of a distributed
    training to try; 0: none."""
    inside = bool(task_name(environ))
    if not inside:
        yield _task_file(subject)
    cluster = subject.settings.backend == "slurm" and not inside
    gpus = look_at(subject.settings, environ)
    chosen = _chosen(subject, gpus, environ, inside=inside, cluster=cluster)
    scene = _Scene(subject, gpus, chosen, environ, ranks, inside, cluster)
    if not cluster:  # its GPUs are elsewhere
        yield from _gpus(scene)
    for python in subject.interpreters:
        yield from _python(scene, python)
    yield from _host(scene)
    if subject.file is not None:
        yield from check_programs(subject.tasks, base_environment(scene.environ), here=not scene.cluster)
        yield from run_own(subject.file, subject.interpreters[0])


def _chosen(subject: Subject, gpus: Gpus, environ: Mapping[str, str], *, inside: bool, cluster: bool) -> Chosen:
    if cluster:
        return Chosen(gpus.inventory)
    return given_gpus(gpus, environ) if inside else choose_gpus(subject.settings, gpus.inventory, environ)


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
    yield from gpu_checks.check_driver(gpus)
    if scene.inside:
        yield from check_given(gpus, chosen, scene.environ)
    else:
        gpu_tasks = any(task.resources.gpus != 0 for task in subject.tasks)
        yield gpu_checks.check_detection(gpus, chosen.gpus, chosen.trouble, gpu_tasks=gpu_tasks)
    yield from card_checks.check_cards(gpus, chosen.gpus, subject.settings)
    yield from gpu_checks.check_models(chosen.gpus)
    yield from gpu_checks.check_links(chosen.gpus)
    yield from gpu_checks.check_mig(gpus)
    yield from gpu_checks.check_persistence(gpus)
    yield from gpu_checks.check_memory(gpus, chosen.gpus)


def _python(scene: _Scene, python: Interpreter) -> Iterator[Finding]:
    """What one interpreter can do; isolation is proven with the first."""
    subject = scene.subject
    imports = subject.file.own_checks.imports if subject.file is not None else ()
    real = [gpu for gpu in scene.chosen.gpus if not gpu.simulated] if python.gpu_tasks or not python.tasks else []
    seeing = python if scene.inside else python.seeing(scene.visible(real))
    ended = python_checks.look_inside(seeing, imports, _values(subject))
    gangs = any(task.resources.gpus not in (0, 1) for task in subject.tasks)
    wanted = python_checks.Wanted(len(real), any(gpu.mig for gpu in real), gangs)
    yield from python_checks.check_python(python, ended, wanted, imports)
    if scene.is_first(python) and not scene.inside and not scene.cluster:
        yield from isolation.check_isolation(isolation.look_from_each(python, _places(scene)))
    if not scene.ranks:
        return
    if python_checks.has_torch(ended):
        yield from _distributed(scene, python, real if python_checks.sees_gpus(ended) else [])
    elif python.gpu_tasks or scene.is_first(python):
        yield fail("distributed", f"no torch in {python.path}", f"{python.path} -m pip install torch")


def _distributed(scene: _Scene, python: Interpreter, real: Sequence[GpuInfo]) -> Iterator[Finding]:
    """On GPUs that nobody uses, where there are enough of them. A process sees one MIG instance at most."""
    idle = [gpu for gpu in real if card_checks.is_idle(scene.gpus, gpu) and not gpu.mig]
    if real and len(idle) < scene.ranks:
        remedy = f"-n {len(idle)} takes GPUs" if idle else "run it again when GPUs are idle"
        text = f"{plural(len(idle), 'idle GPU')} for {scene.ranks} ranks: tried on the CPU"
        yield warn("distributed", text, remedy)
    visible = scene.visible(idle[: scene.ranks]) if len(idle) >= scene.ranks else ""
    yield from check_ranks(launch(python, scene.ranks, visible))


def _host(scene: _Scene) -> Iterator[Finding]:
    subject = scene.subject
    settings = subject.settings
    yield host_checks.check_disk(host_look.disk(settings.log_dir), shared=scene.cluster)
    if not scene.cluster:
        yield host_checks.check_shared_memory(host_look.disk("/dev/shm"))
    yield from host_checks.check_limits(host_look.limits())
    if not scene.cluster:
        yield check_load(subject.tasks, settings, len(scene.chosen.gpus), host_look.cores())
    yield host_checks.check_logout(host_look.logout())
    if not scene.cluster:
        yield from host_checks.check_ports(host_look.ports())
    yield host_checks.check_kernel(host_look.missing_in_kernel())
    if scene.cluster:
        yield from check_cluster(subject.tasks, settings.log_dir, settings.max_submitted, scene.environ)
    else:
        yield check_slurm(look_for_slurm(scene.environ))


def _places(scene: _Scene) -> list[isolation.Place]:
    if not scene.chosen.gpus:
        return [isolation.Place(f"CPU {number}", "") for number in range(_MOST_ON_CPU)]
    return [_place(scene, gpu) for gpu in scene.chosen.gpus]


def _place(scene: _Scene, gpu: GpuInfo) -> isolation.Place:
    """Something is computed only where nobody is disturbed."""
    if gpu.simulated:
        return isolation.Place(f"SIM {gpu.index}", scene.visible([gpu]))
    how = "touch" if card_checks.is_idle(scene.gpus, gpu) else "look"
    return isolation.Place(f"GPU {gpu.index}", scene.visible([gpu]), gpu.uuid, how)


def _values(subject: Subject) -> dict[str, str]:
    if subject.file is None:
        return {"lr": "0.1"}
    params = {name: value for task in subject.tasks[:1] for name, value in task.params.items()}
    return {**subject.file.vars, **params}
