"""The page about a task as lines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpudeck.engine.protocol.wire import TaskRow
from tests.inside.tui import Curve, Known, Left, command_text, folded, git_text, harmless, length, links
from tests.inside.tui import task_lines_lines_of as lines_of

NOW_S = 1_800_000_000.0
ENERGY = {"energy_wh": 1240.0, "mean_power_w": 310.2}
HOSTILE = "a\x1b]52;c;aGk=\x07b\x9b31m[red]\u202e[/]\x00\n\ud800"


def details(**more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": "t", "entry": "t", "line": 3, "state": "failed", "flags": [], "command": ["python", "a b.py"],
        "env": {"LR": "1", "OLD": None}, "cwd": "/w", "python": "/p", "fingerprint": "", "round": 0, "group": "",
        "needs": [], "after": [], "waits_on": [], "needed_by": [], "gpus": 1, "outputs": [], "metrics": [],
        "params": {}, "tags": [], "priority": 0, "effective_priority": 0, "retries_used": 1, "retries": 2,
        "retried_fresh": False, "retried_env": {}, "retried_not_on": [], "waits_for": [], "running": None,
        "attempts": [attempt(1), attempt(2)],
    }  # fmt: skip
    return {**found, **more}


def attempt(number: int, **more: Any) -> dict[str, Any]:
    return {
        "number": number, "reason": "out of memory", "kind": "oom", "exit_code": 1, "gpus": [number],
        "duration_s": 65.0, "peak_mib": 2048, "log": f"/l/{number}.log", "err": f"/l/{number}.err", "json": "", **more,
    }  # fmt: skip


def row(**more: Any) -> TaskRow:
    values: dict[str, Any] = {"index": 0, "name": "t", "entry": "t", "state": "failed", "attempt": 2, **more}
    return TaskRow(**values)


def text(known: Known, width: int = 100) -> str:
    return "\n".join("".join(span.text for span in line) for line in lines_of(known, width, NOW_S))


def test_attempts_are_told_newest_first_with_exit_code_gpu_time_and_peak() -> None:
    lines = [line for line in text(Known(details(), row(), 2, Left((), {}))).splitlines() if "out of memory" in line]
    assert [line.split()[0] for line in lines] == ["▸", "1"]
    assert "exit 1" in lines[0]
    assert lines[0].split()[-5:] == ["GPU", "2", "1m05s", "2.0", "GiB"]


@pytest.mark.parametrize(("line", "told"), [(3, "t  (line 3)"), (0, "t")])
def test_an_entry_is_told_with_its_line_where_the_file_has_it(line: int, told: str) -> None:
    (shown,) = (
        each for each in text(Known(details(line=line), row(), 2, Left((), {}))).splitlines() if "entry" in each
    )
    assert shown.split(maxsplit=1)[1] == told


def test_a_waiting_task_tells_all_that_it_waits_for() -> None:
    known = Known(details(attempts=[], waits_for=["needs a", "no GPU is free"]), row(state="queued", attempt=0), 0)
    assert "Waits for\n  needs a\n  no GPU is free" in text(known)


def test_the_chosen_attempt_tells_git_state_and_the_end_of_its_log() -> None:
    end = {"peak_mib": 1024, "mean_mib": 512.0, **ENERGY}
    left = Left(("ValueError: 3",), {"git": {"commit": "1a2b", "branch": "main"}, "host": "box", "end": end})
    told = text(Known(details(), row(), 2, left))
    assert "git        1a2b on main" in told
    assert "GPU memory peak 1.0 GiB, mean 512.0 MiB" in told
    assert "energy     1.24 kWh, mean 310 W\n" in told
    assert "ValueError: 3" in told


def test_an_attempt_of_a_changed_task_tells_what_it_ran() -> None:
    changed = details(flags=["changed"])
    told = text(Known(changed, row(), 2, Left((), {"command": ["/bin/bash", "-c", "old | less"]})))
    assert "ran        old | less" in told
    assert "Command  (as the file says now)\n  python 'a b.py'" in told
    assert "\n  ran " not in text(Known(changed, row(), 2, Left((), {"command": ["python", "a b.py"]})))
    assert "\n  ran " not in text(Known(changed, row(), 2, Left((), {})))


def test_what_an_attempt_ran_is_told_of_changed_tasks_alone() -> None:
    told = text(Known(details(), row(), 2, Left((), {"command": ["old"]})))
    assert "\n  ran " not in told
    assert "Command\n" in told


def test_a_command_is_quoted_as_a_shell_takes_it() -> None:
    assert command_text(["python", "a b.py"]) == "python 'a b.py'"
    assert command_text("a | b") == "a | b"


@pytest.mark.parametrize(("width", "together"), [(60, [["a"], ["b"], ["c"]]), (310, [["a", "b"], ["c"]])])
def test_curves_stand_in_pairs_where_there_is_room(width: int, together: list[list[str]]) -> None:
    curves = [Curve(f"metric-{name}", "step", ((0, 1.0), (1, 2.0)), 2, 2.0, (0, 1.0), (1, 2.0)) for name in "abc"]
    told = text(Known(details(), row(), 2, Left((), {}), curves=curves), width)
    found = [[name for name in "abc" if f"metric-{name}" in line] for line in told.splitlines()]
    assert [names for names in found if names] == together


def test_needs_and_dependents_can_be_opened() -> None:
    known = Known(details(needs=["a*"], waits_on=["a1", "a2"], needed_by=["z"]), row(), 2)
    found = [span.link for line in lines_of(known, 80, NOW_S) for span in line if span.link and span.link[0] == "task"]
    assert found == [("task", "a1"), ("task", "a2"), ("task", "z")]


@pytest.mark.parametrize("width", [20, 80, 119, 120, 200])
def test_texts_from_outside_harm_nothing_and_stay_in_their_columns(width: int) -> None:
    git = {"commit": HOSTILE, "branch": HOSTILE}
    known = Known(
        details(
            command=HOSTILE * 20, env={HOSTILE: HOSTILE}, waits_for=[HOSTILE], needed_by=[HOSTILE], tags=[HOSTILE],
            attempts=[attempt(2, reason=HOSTILE, log=HOSTILE)],
        ),
        row(name=HOSTILE, reason=HOSTILE), 2, Left((HOSTILE,), {"git": git, "host": HOSTILE}),
    )  # fmt: skip
    for line in lines_of(known, width, NOW_S):
        assert length(line) <= max(width, 36)
        told = "".join(span.text for span in line)
        assert not any(ord(char) < 32 or 127 <= ord(char) < 160 or char == "\u202e" for char in told)


@given(st.text(max_size=200), st.integers(2, 40))
@example("00\U0001bc9d", 2)  # the last one has no width
def test_folding_loses_nothing_but_blanks(raw: str, width: int) -> None:
    clean = harmless(raw)
    lines = folded(clean, width)
    assert "".join(lines).replace(" ", "") == clean.replace(" ", "")
    assert all(cell_len(line) <= width for line in lines)


def test_what_just_fits_is_one_line() -> None:
    assert folded("a b c", 5) == ["a b c"]


def test_of_very_many_names_the_first_are_shown_and_the_rest_counted() -> None:
    told = "".join(span.text for line in links("needs", [f"t{at}" for at in range(5000)], 80) for span in line)
    assert "and 4,940 more" in told


@pytest.mark.parametrize(
    ("git", "told"),
    [
        (None, ""),
        ({"commit": "0123456789abcdef", "branch": "main", "dirty": False}, "0123456789 on main"),
        (
            {"commit": "0123456789abcdef", "branch": "", "dirty": True},
            "0123456789, with changes that are not committed",
        ),
        ({"commit": "", "branch": "main", "dirty": False}, "no commit yet on main"),
        ("rubbish", ""),
    ],
)
def test_a_git_state_in_words(git: object, told: str) -> None:
    assert git_text(git) == told


def test_what_it_asks_of_each_card_stands_behind_its_gpus() -> None:
    known = Known(details(gpu_memory="20.0 GiB on each card (learned)"), row(), 2)
    assert "(20.0 GiB on each card (learned))" in text(known)


def test_an_attempt_tells_the_profile_of_its_gpus() -> None:
    tried = attempt(2, gpu_profile=["24GiB", "--bs 16", "--accumulate 2"])
    known = Known(details(attempts=[tried]), row(), 2, Left((), {}))
    assert "profile    24GiB: --bs 16  --accumulate 2" in text(known)
