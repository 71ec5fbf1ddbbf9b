"""A task with an image: the client of a container program, around its command. Pure, but for `chosen`.

The container ends with its command (`--rm`), sees the box's network and shared memory, the task's folders at their own
paths and its GPUs, and belongs to the task's user. Its variables reach it by name, so that no list of processes shows
their values; those that the client itself would heed stand in its words.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..core.spec import TaskSpec

Program = Literal["docker", "podman", "apptainer"]

PROGRAMS: tuple[Program, ...] = ("docker", "podman", "apptainer")
BY_DAEMON = frozenset({"docker", "podman"})
"""Those that start a container's processes as no children of the client's."""
_TYPED = re.compile(
    r"(?:^|[;&|(\n])\s*(?:(?:exec|sudo|time)\s+|\w+=\S*\s+)*(?:\S*/)?(docker|podman)\s(?:[^;&|\n]*\s)?run\s"
    r"(?:[^;&|\n]*?--name[= ](?P<name>[\w.-]+)(?!\S))?"
)
_SHARED = "/dev/shm"
"""In which loaders of data and ranks hand tensors on: a container's own has 64 MB."""
_DOCKERS_SOCKET = "/var/run/docker.sock"
_CLIENTS_OWN = re.compile(r"HOME|PATH|TMPDIR|(LD|XDG|DOCKER|PODMAN|CONTAINERS?|STORAGE|BUILDAH)_.*")


@dataclass(frozen=True, slots=True)
class Container:
    """What one attempt runs in."""

    program: Program
    image: str
    folders: tuple[str, ...]
    """Of the box, seen at the same paths."""
    mounts: tuple[str, ...]
    """The task's own: PATH, HOST:INSIDE or HOST:INSIDE:ro."""

    @property
    def by_daemon(self) -> bool:
        """It sees its own GPUs alone, too, numbered from 0."""
        return self.program in BY_DAEMON


def chosen(wanted: Program | Literal["auto"], environ: Mapping[str, str]) -> Program | None:
    """The container program: the one that is wanted, else the first that is there, a docker without its daemon's
    socket last. None: there is none. *environ*: what attempts start from."""
    path = environ.get("PATH")
    there: list[Program] = [one for one in PROGRAMS if wanted in (one, "auto") and shutil.which(one, path=path)]
    told = "DOCKER_HOST" in environ or "DOCKER_CONTEXT" in environ
    if there[1:] and there[0] == "docker" and not told and not os.access(_DOCKERS_SOCKET, os.W_OK):
        return there[1]
    return there[0] if there else None


class Client(NamedTuple):
    """What starts a container by hand: its processes are the daemon's, not the task's."""

    program: str
    container: str
    """As the command names it; "": it does not."""


def typed_client(spec: TaskSpec) -> Client | None:
    """By which the task's own command starts a container."""
    command = spec.work.command
    text = command.replace("\\\n", " ") if isinstance(command, str) else " ".join(command)
    typed = None if spec.extras.image else _TYPED.search(text)
    return None if typed is None else Client(typed[1], typed["name"] or "")


def visible_inside(visible: str, gpus: int) -> str:
    """CUDA_VISIBLE_DEVICES where only the task's *gpus* GPUs are seen. UUIDs mean the same everywhere."""
    return ",".join(map(str, range(gpus))) if visible.replace(",", "").isdigit() else visible


def contained(
    container: Container,
    argv: Sequence[str],
    env: Mapping[str, str],
    outside: Mapping[str, str],
    *,
    cwd: str,
    gpus: Sequence[str],
    user: tuple[int, int],
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The client's words and its environment. *env*: what the command is to have, GPUDECK_TOKEN among it; *outside*:
    what the client starts from; *gpus*: UUIDs; *user*: uid and gid."""
    token = env["GPUDECK_TOKEN"]
    if container.program == "apptainer":
        bound = [word for bind in _binds(container) for word in ("--bind", bind)]
        nv = ("--nv",) if gpus else ()
        words = ("apptainer", "exec", "--cleanenv", *nv, *bound, "--pwd", cwd, container.image, *argv)
        return words, {
            **outside,
            **{f"APPTAINERENV_{name}": value for name, value in env.items()},
            "GPUDECK_TOKEN": token,
        }
    said = {name: value for name, value in env.items() if not _CLIENTS_OWN.fullmatch(name)}
    told = (name if name in said else f"{name}={value}" for name, value in env.items())
    words = (
        container.program, "run", "--rm", "--init", "--name", name_of(token), "--log-driver", "none",
        "--network", "host", *_as_user(container.program, user), *_with_gpus(container.program, gpus),
        *(word for bind in _binds(container) for word in ("--volume", bind)), "--workdir", cwd,
        *(word for one in told for word in ("--env", one)), container.image, *argv,
    )  # fmt: skip
    return words, {**outside, **said}


def name_of(token: str) -> str:
    """What a container is called, by its attempt."""
    return f"gpudeck-{token}"


def bare(folders: Collection[str]) -> tuple[str, ...]:
    """*folders* without those that lie in another one of them."""
    wanted = dict.fromkeys(map(os.path.normpath, folders))
    return tuple(one for one in wanted if not any(other != one and _is_in(one, other) for other in wanted))


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _binds(container: Container) -> list[str]:
    own = [f"{folder}:{folder}" for folder in (*container.folders, *((_SHARED,) if container.by_daemon else ()))]
    return own + [mount if ":" in mount else f"{mount}:{mount}" for mount in container.mounts]


def _as_user(program: Program, user: tuple[int, int]) -> tuple[str, ...]:
    """So that what it writes is the user's: podman has a user besides root in a namespace of ids, where it is to stay
    itself. A label of SELinux would keep it from the user's folders."""
    ids = "{}:{}".format(*user)
    if program == "docker":
        return ("--user", ids)
    return (*(("--userns", "keep-id") if user[0] else ()), "--user", ids, "--security-opt", "label=disable")


def _with_gpus(program: Program, gpus: Sequence[str]) -> tuple[str, ...]:
    """docker reads the value as a line of CSV, in which a device's list has to be quoted."""
    if program == "docker":
        return ("--gpus", f'"device={",".join(gpus)}"') if gpus else ()
    return tuple(word for gpu in gpus for word in ("--device", f"nvidia.com/gpu={gpu}"))
