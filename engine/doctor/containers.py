"""Whether what tasks with an image need is there: a container program, and the image."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from ..adapters.programs import run_program
from ..attempts.container import PROGRAMS, Program, chosen
from ..core.spec import DeckSettings, TaskSpec
from .finding import Finding, fail, ok, warn

_TIMEOUT_S = 10.0
_ASKED: Mapping[Program, tuple[str, ...]] = {"docker": ("image", "inspect"), "podman": ("image", "exists")}
_NONE_SUCH = {"docker": "no such image", "podman": ""}
"""What is said of an image that is not there, beside a code that other troubles have, too."""


def check_images(tasks: Sequence[TaskSpec], settings: DeckSettings, base: Mapping[str, str]) -> Iterator[Finding]:
    """Nothing without tasks that have an image. *base*: what attempts start from. Calls the program."""
    images = list(dict.fromkeys(task.extras.image for task in tasks if task.extras.image))
    if not images:
        return
    program = chosen(settings.container, base)
    if program is None:
        wanted = ", ".join(PROGRAMS) if settings.container == "auto" else settings.container
        remedy = "install podman, docker or apptainer" if settings.container == "auto" else f"install {wanted}"
        yield fail("container", f"{images[0]} needs a container program, and PATH has none of: {wanted}", remedy)
        return
    found = [finding for image in images if (finding := _image(program, image, base))]
    yield from found or [ok("container", f"{program} has {', '.join(images)}")]


def _image(program: Program, image: str, base: Mapping[str, str]) -> Finding | None:
    """None: it is there, or that is known at its start alone."""
    if program == "apptainer":
        if "://" in image or os.path.exists(os.path.expanduser(image)):
            return None
        return fail("container", f"{image} is not there", "write the path of a .sif, or docker://NAME")
    answer = run_program((program, *_ASKED[program], image), base, timeout_s=_TIMEOUT_S)
    if answer.ok:
        return None
    if answer.code == 1 and _NONE_SUCH[program] in answer.err.lower():
        text = f"{program} does not have {image} yet: the first start pulls it, with its GPU held"
        return warn("container", text, f"{program} pull {image}")
    said = answer.err.strip().splitlines() or [f"exit code {answer.code}"]
    return fail("container", f"{program} does not work: {said[-1]}", f"{program} run --rm {image} true tells more")
