"""What check and doctor say of container programs and images."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudeck.engine.core.spec import DeckSettings, Extras, TaskSpec, Work
from tests.inside.doctor import check_images

TASKS = [TaskSpec("t", "t", 0, Work(("x",)), "f", extras=Extras(image="img:1"))]


def program(folder: Path, name: str, answer: str) -> dict[str, str]:
    (folder / name).write_text(f"#!/bin/sh\n{answer}\n")
    (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:/bin"}


def test_without_a_program_it_says_what_to_install(tmp_path: Path) -> None:
    (found,) = check_images(TASKS, DeckSettings(), {"PATH": str(tmp_path)})
    assert (found.level, found.remedy) == ("fail", "install podman, docker or apptainer")


def test_one_that_is_asked_for_by_name_is_to_be_installed(tmp_path: Path) -> None:
    program(tmp_path, "podman", "true")
    (found,) = check_images(TASKS, DeckSettings(container="docker"), {"PATH": str(tmp_path)})
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
    (found,) = check_images(TASKS, settings, program(tmp_path, name, answer))
    assert found.level == level


def test_a_deck_without_images_needs_none(tmp_path: Path) -> None:
    plain = [TaskSpec("t", "t", 0, Work(("x",)), "f")]
    assert not list(check_images(plain, DeckSettings(), {"PATH": str(tmp_path)}))
