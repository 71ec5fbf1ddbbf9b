"""What check and doctor say of container programs and images."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudeck.engine.core.spec import DeckSettings, Extras, TaskSpec, Work
from tests.inside.doctor import check_containers

TASKS = [TaskSpec("t", "t", 0, Work(("x",)), "f", extras=Extras(image="img:1"))]


def program(folder: Path, name: str, answer: str) -> dict[str, str]:
    (folder / name).write_text(f"#!/bin/sh\n{answer}\n")
    (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:/bin"}


def test_without_a_program_it_says_what_to_install(tmp_path: Path) -> None:
    (found,) = check_containers(TASKS, DeckSettings(), {"PATH": str(tmp_path)})
    assert (found.level, found.remedy) == ("fail", "install podman, docker or apptainer")


def test_one_that_is_asked_for_by_name_is_to_be_installed(tmp_path: Path) -> None:
    program(tmp_path, "podman", "true")
    (found,) = check_containers(TASKS, DeckSettings(container="docker"), {"PATH": str(tmp_path)})
    assert found.remedy == "install docker"


@pytest.mark.parametrize(
    ("name", "answer", "level"),
    [
        ("podman", "exit 0", "ok"),
        ("podman", "exit 1", "warn"),
        ("podman", "echo no subuids >&2; exit 125", "fail"),
        ("docker", "exit 0", "ok"),
        ("docker", "echo Error: No such image: img:1 >&2; exit 1", "warn"),
        ("docker", "echo Cannot connect to the Docker daemon >&2; exit 1", "fail"),
        ("apptainer", "exit 0", "fail"),
    ],
)
def test_an_image_that_is_not_there_is_said(tmp_path: Path, name: str, answer: str, level: str) -> None:
    settings = DeckSettings(container=name)  # type: ignore[arg-type]
    (found,) = check_containers(TASKS, settings, program(tmp_path, name, answer))
    assert found.level == level


@pytest.mark.parametrize(("answer", "level"), [("exit 0", "ok"), ("echo no user namespaces >&2; exit 255", "fail")])
def test_an_apptainer_that_does_not_work_is_said(tmp_path: Path, answer: str, level: str) -> None:
    tasks = [TaskSpec("t", "t", 0, Work(("x",)), "f", extras=Extras(image="docker://img:1"))]
    settings = DeckSettings(container="apptainer")
    (found,) = check_containers(tasks, settings, program(tmp_path, "apptainer", answer))
    assert found.level == level


def test_a_deck_without_images_needs_none(tmp_path: Path) -> None:
    plain = [TaskSpec("t", "t", 0, Work(("x",)), "f")]
    assert not list(check_containers(plain, DeckSettings(), {"PATH": str(tmp_path)}))


def test_a_docker_without_root_is_refused_since_its_containers_have_another_user(tmp_path: Path) -> None:
    base = program(tmp_path, "docker", 'test "$1" = info && echo "[name=seccomp name=rootless name=cgroupns]"; exit 0')
    (found,) = check_containers(TASKS, DeckSettings(container="docker"), base)
    assert (found.level, "without root" in found.text) == ("fail", True)
    assert found.remedy == 'install podman, and write container = "podman" in [deck]'


@pytest.mark.parametrize(
    ("command", "warned"),
    [
        ("docker run --rm img python train.py", True),
        ("cd data && exec podman --log-level warn run img", True),
        (("/usr/bin/docker", "container", "run", "img"), True),
        ("docker \\\n  run img", True),
        ("CUDA=0 docker run img", True),
        ("docker pull img; python train.py run", False),
        ("echo docker run img", False),
        ("apptainer exec img.sif python train.py", False),
    ],
)
def test_a_container_that_a_command_starts_by_itself_is_warned_of(
    command: str | tuple[str, ...], *, warned: bool
) -> None:
    """apptainer's are processes of the task."""
    found = list(check_containers([TaskSpec("t", "t", 0, Work(command), "f")], DeckSettings(), {}))
    assert [each.level for each in found] == ["warn"] * warned
