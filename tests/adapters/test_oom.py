"""Whom the kernel ends first when memory runs out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.inside.adapters import RAISED_BY, ChildrenFirst

OWN = Path("/proc/self/oom_score_adj")
TELL = ["cat", str(OWN)]


@pytest.fixture
def own() -> int:
    return int(OWN.read_text())


def told(command: list[str]) -> int:
    return int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def test_what_is_started_inside_goes_before_this_process(own: int) -> None:
    with ChildrenFirst():
        assert told(TELL) == min(1000, own + RAISED_BY)


def test_what_those_start_goes_before_this_process_too(own: int) -> None:
    with ChildrenFirst():
        assert told(["sh", "-c", f"(cat {OWN}); :"]) == min(1000, own + RAISED_BY)


def test_this_process_is_as_before_afterwards(own: int) -> None:
    first = ChildrenFirst()
    with pytest.raises(FileNotFoundError), first:
        subprocess.run(["no-such-command"], check=False)
    assert int(OWN.read_text()) == own


def test_it_does_not_climb_with_every_start(own: int) -> None:
    first = ChildrenFirst()
    for _ in range(3):
        with first:
            seen = told(TELL)
    assert seen == min(1000, own + RAISED_BY)


def test_the_scale_ends_at_a_thousand(tmp_path: Path) -> None:
    (tmp_path / "adj").write_text("950\n")
    with ChildrenFirst(str(tmp_path / "adj")):
        assert (tmp_path / "adj").read_text() == "1000"


def test_a_kernel_that_tells_nothing_is_left_alone(tmp_path: Path) -> None:
    with ChildrenFirst(str(tmp_path / "missing")):
        pass


def test_what_is_no_number_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "adj").write_text("many\n")
    with ChildrenFirst(str(tmp_path / "adj")):
        assert (tmp_path / "adj").read_text() == "many\n"


def test_after_close_nothing_is_raised(own: int) -> None:
    first = ChildrenFirst()
    first.close()
    first.close()
    with first:
        assert told(TELL) == own
