"""What is installed is what lies here: packages, data files, and a command that starts from anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gpudeck

ROOT = Path(__file__).parents[1]
NOT_SHIPPED = {"tests", "examples", "bench", "docs", "build", "dist"}
OF_HYDRA = "hydra_plugins"
"""Shipped beside the package: Hydra looks for plugins there."""
HEAVY = {"hydra", "omegaconf", "torch", "textual", "rich", "sklearn", "numpy", "matplotlib", "jsonschema"}


@pytest.fixture(scope="module")
def setuptools_table() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def shipped_folders() -> Iterator[Path]:
    """The folders at the root that belong to the package."""
    for path in ROOT.iterdir():
        of_the_project = path.name not in NOT_SHIPPED and not path.name.startswith((".", "_"))
        if path.is_dir() and of_the_project and any(path.rglob("__init__.py")):
            yield path


def files_of_the_package() -> set[Path]:
    found = (path for folder in shipped_folders() for path in folder.rglob("*"))
    return {path for path in found if path.is_file() and "__pycache__" not in path.parts}


def run_gpudeck(*arguments: str, cwd: Path, flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUDECK_", "PYTHON"))}
    command = [sys.executable, "-P", *flags, "-m", "gpudeck", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def imported_modules(importtime: str) -> set[str]:
    """Top-level names in the output of `python -X importtime`."""
    lines = (line for line in importtime.splitlines() if line.startswith("import time:"))
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in lines}


def test_the_listed_packages_are_the_folders_with_an_init_file(setuptools_table: dict[str, Any]) -> None:
    folders = {path.parent.relative_to(ROOT) for path in files_of_the_package() if path.name == "__init__.py"}
    names = {
        ".".join(folder.parts if folder.parts[0] == OF_HYDRA else ("gpudeck", *folder.parts)) for folder in folders
    }
    assert names | {"gpudeck", OF_HYDRA} == set(setuptools_table["packages"])


def test_the_namespace_of_hydras_plugins_belongs_to_nobody() -> None:
    assert [path.name for path in (ROOT / OF_HYDRA).iterdir() if path.name != "__pycache__"] == ["gpudeck_launcher"]


def test_every_module_lies_in_a_folder_with_an_init_file() -> None:
    stray = {path for path in files_of_the_package() if path.suffix == ".py"}
    assert {path for path in stray if not (path.parent / "__init__.py").exists()} == set()


def test_every_data_file_is_listed_as_package_data(setuptools_table: dict[str, Any]) -> None:
    listed: set[Path] = set()
    for package, patterns in setuptools_table.get("package-data", {}).items():
        folder = ROOT.joinpath(*package.split(".")[1:])
        listed.update(path for pattern in patterns for path in folder.glob(pattern))
    assert {path for path in files_of_the_package() if path.suffix != ".py"} == listed


def test_every_package_data_pattern_matches_a_file(setuptools_table: dict[str, Any]) -> None:
    for package, patterns in setuptools_table.get("package-data", {}).items():
        folder = ROOT.joinpath(*package.split(".")[1:])
        assert [pattern for pattern in patterns if not any(folder.glob(pattern))] == []


def test_no_other_module_at_the_root_would_be_shipped() -> None:
    assert {path.name for path in ROOT.glob("*.py")} == {"__init__.py", "__main__.py"}


@pytest.mark.parametrize("folder", ["an empty one", "the checkout", "one with a gpudeck.py", "the root folder"])
def test_the_command_starts_from_any_folder(folder: str, tmp_path: Path) -> None:
    (tmp_path / "shadow").mkdir()
    (tmp_path / "shadow" / "gpudeck.py").write_text("raise SystemExit('the wrong gpudeck')")
    (tmp_path / "shadow" / "engine.py").write_text("raise SystemExit('the wrong engine')")
    places = {"an empty one": tmp_path, "the checkout": ROOT, "one with a gpudeck.py": tmp_path / "shadow"}
    done = run_gpudeck("--version", cwd=places.get(folder, Path("/")))
    assert (done.returncode, done.stderr) == (0, "")
    assert gpudeck.__version__ in done.stdout


@pytest.mark.parametrize("arguments", [("--version",), ("check", str(ROOT / "tasks.toml"))])
def test_short_commands_import_nothing_heavy(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = run_gpudeck(*arguments, cwd=tmp_path, flags=("-X", "importtime"))
    assert done.returncode == 0, done.stderr
    assert imported_modules(done.stderr) & HEAVY == set()


def test_asking_for_the_version_imports_no_engine(tmp_path: Path) -> None:
    done = run_gpudeck("--version", cwd=tmp_path, flags=("-X", "importtime"))
    assert imported_modules(done.stderr) & {"asyncio", "sqlite3", "msgspec", "psutil", "pynvml"} == set()
