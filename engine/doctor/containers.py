"""Whether what tasks with an image need is there, a container program and the image; and who starts containers by
hand."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from ..adapters.programs import run_program
from ..attempts.container import PROGRAMS, Program, chosen, typed_client
from ..core.spec import DeckSettings, TaskSpec
from .finding import Finding, fail, ok, warn

_TIMEOUT_S = 10.0
_SECURITY = ("docker", "info", "--format", "{{.SecurityOptions}}")
_ASKED: Mapping[Program, str] = {"docker": "inspect", "podman": "exists"}
_NONE_SUCH = {"docker": "no such image", "podman": ""}
"""What is said of an image that is not there, beside a code that other troubles have, too."""


def check_containers(tasks: Sequence[TaskSpec], settings: DeckSettings, base: Mapping[str, str]) -> Iterator[Finding]:
    """Nothing without containers. *base*: what attempts start from. Calls the program of tasks that have an image."""
    if settings.backend == "local":
        clients = {client.program: task.name for task in reversed(tasks) if (client := typed_client(task))}
        for program, task in clients.items():
            text = f"{task} calls {program} run: the container is not the task's own, and may outlive a stop"
            yield warn("container", text, "give the task the key image instead, or write --rm --init")
    yield from _check_images(tasks, settings, base)


def _check_images(tasks: Sequence[TaskSpec], settings: DeckSettings, base: Mapping[str, str]) -> Iterator[Finding]:
    images = list(dict.fromkeys(task.extras.image for task in tasks if task.extras.image))
    if not images:
        return
    program = chosen(settings.container, base)
    if program is None:
        wanted = ", ".join(PROGRAMS) if settings.container == "auto" else settings.container
        remedy = "install podman, docker or apptainer" if settings.container == "auto" else f"install {wanted}"
        yield fail("container", f"{images[0]} needs a container program, and PATH has none of: {wanted}", remedy)
        return
    if program == "docker" and "rootless" in run_program(_SECURITY, base, timeout_s=_TIMEOUT_S).out:
        text = "docker runs without root here, and in its containers you are a user who may not write your files"
        yield fail("container", text, 'install podman, and write container = "podman" in [deck]')
        return
    found = [finding for image in images if (finding := _image(program, image, base))]
    there = "is there for" if program == "apptainer" else "has"
    yield from found or [ok("container", f"{program} {there} {', '.join(images)}")]


def _image(program: Program, image: str, base: Mapping[str, str]) -> Finding | None:
    """None: it is there, or that is known at its start alone."""
    if program == "apptainer" and "://" not in image and not os.path.exists(os.path.expanduser(image)):
        return fail("container", f"{image} is not there", "write the path of a .sif, or docker://NAME")
    words = ("version",) if program == "apptainer" else ("image", _ASKED[program], image)
    answer = run_program((program, *words), base, timeout_s=_TIMEOUT_S)
    if answer.ok:
        return None
    if program != "apptainer" and answer.code == 1 and _NONE_SUCH[program] in answer.err.lower():
        text = f"{program} does not have {image} yet: the first start pulls it, with its GPU held"
        return warn("container", text, f"{program} pull {image}")
    said = answer.err.strip().splitlines() or [f"exit code {answer.code}"]
    tried = "exec" if program == "apptainer" else "run --rm"
    return fail("container", f"{program} does not work: {said[-1]}", f"{program} {tried} {image} true tells more")
