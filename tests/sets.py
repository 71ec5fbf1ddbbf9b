"""Sets of tests that `python -m pytest` leaves out: they need minutes, or programs that not every machine has.

A test is of a set by its marker; the tests of a folder in `FOLDERS` are it by their place. `pytest -m SET` runs a set,
`make test-all` all of them but those that need a GPU. Who names a file or a test gets it, whatever set it is of.
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

SETS = {
    "slurm": "a Slurm cluster that the tests start on this box",
    "containers": "podman's and docker's real containers",
    "torchrun": "torch in several processes, and the examples",
    "terminal": "the screen and commands on real terminals: tmux, ptys",
    "browser": "pages in a real browser",
    "faults": "every fault in every state of a task",
    "soak": "random use, hundreds of kills, many hypothesis examples",
    "gpu": "a real NVIDIA GPU",
}
FOLDERS = {"random_use": "soak"}
_TESTS = Path(__file__).parent
_THOROUGH = "soak"
"""Hypothesis tests are run once more in this set, with more examples."""


def configure(config: pytest.Config) -> None:
    for name, text in SETS.items():
        config.addinivalue_line("markers", f"{name}: {text}")


def wants_thoroughness(config: pytest.Config) -> bool:
    """Whether Hypothesis is to try many examples."""
    return config.option.markexpr == _THOROUGH


def workers(config: pytest.Config) -> int:
    """How many processes share the tests: none for a file or two, or where they share a card; else two more than cores,
    for a test often waits."""
    if config.option.markexpr == "gpu":
        return 0
    files = [name for name in config.args if os.path.isfile(name.partition("::")[0])]
    return 0 if files and len(files) == len(config.args) < 3 else min(len(os.sched_getaffinity(0)) + 2, 6)


def scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests of `torchrun` that look at one deck stay with one process, which runs it once; None: as tests come."""
    if "torchrun" not in (config.option.markexpr or ""):
        return None
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)


def ignored(path: Path, config: pytest.Config) -> bool | None:
    """Whether a file need not be read: none of its tests is asked for."""
    if path.suffix != ".py" or _TESTS not in path.parents or _is_named(str(path), config):
        return None
    folder = path.relative_to(_TESTS).parts[0]
    wanted = config.option.markexpr
    if not wanted:
        whole = re.search(r"^pytestmark = pytest\.mark\.(\w+)$", path.read_text(), re.MULTILINE)
        return folder in FOLDERS or (whole is not None and whole[1] in SETS) or None
    if wanted not in SETS or wanted in (folder, FOLDERS.get(folder)):
        return None
    named = f"mark.{wanted}" in path.read_text() or (wanted == _THOROUGH and _has_properties(path))
    return None if named else True


def sort(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is of a set by its place; leave out what is of a set, unless sets are chosen."""
    for item in items:
        if name := FOLDERS.get(item.path.relative_to(_TESTS).parts[0]):
            item.add_marker(name)
        if wants_thoroughness(config) and getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(_THOROUGH)
    if config.option.markexpr:
        return
    left_out = {
        item for item in items if any(map(item.get_closest_marker, SETS)) and not _is_named(str(item.path), config)
    }
    config.hook.pytest_deselected(items=[*left_out])
    items[:] = [item for item in items if item not in left_out]


def shuffle(items: list[pytest.Item], seed: str) -> None:
    """Another order: of the files, and of the tests of each, so that what a file's tests share is made once."""
    dice = random.Random(seed)
    by_file: dict[Path, list[pytest.Item]] = {}
    for item in items:
        by_file.setdefault(item.path, []).append(item)
    files = list(by_file.values())
    dice.shuffle(files)
    for tests in files:
        dice.shuffle(tests)
    items[:] = [item for tests in files for item in tests]


def summary(terminal: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was not run."""
    if not config.option.markexpr and not config.option.file_or_dir:
        names = ", ".join(SETS)
        terminal.write_line(f"not run: {names} (`pytest -m SET` runs one, `make test-all` all but gpu)")


def _is_named(path: str, config: pytest.Config) -> bool:
    return any(os.path.abspath(name.partition("::")[0]) == path for name in config.args)


def _has_properties(path: Path) -> bool:
    return re.search(r"^(from|import) hypothesis", path.read_text(), re.MULTILINE) is not None
