"""Every deck under examples/, and the default one, is sound wherever one stands."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inside.examples import main

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "tasks.toml", *sorted((ROOT / "examples").glob("*/tasks.toml"))]
GPUS = ("none", "sim:4")


def profiles() -> Iterator[tuple[Path, str]]:
    for file in FILES:
        yield from ((file, name) for name in tomllib.loads(file.read_text()).get("profile", {}))


def test_there_are_four_decks() -> None:
    assert len(FILES) == 4


@pytest.mark.parametrize("gpus", GPUS)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name if file.parent != ROOT else "default")
def test_a_deck_is_sound_from_another_folder(
    file: Path, gpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", str(file), "--gpus", gpus]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("file", "profile"), list(profiles()))
def test_a_profile_of_a_deck_is_sound(
    file: Path, profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", str(file), "--gpus", "sim:4", "--profile", profile]) == 0
    assert capsys.readouterr().err == ""
