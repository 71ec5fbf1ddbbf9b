"""What a user can mend is told in one form by all commands: who tells it, or the place in the task file; exit 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.commands_rig import MIXED
from tests.inside.commands import VERBS
from tests.rigs.desk import typed_in

_OF_SELECTORS = [
    "show", "explain", "logs", "wait", "ls", "table", "retry", "cancel", "kill", "hold", "release", "accept",
]  # fmt: skip
_OWN_WORDS = {"completion": ["tcsh"], "init": ["--gpus", "-1"], "service": ["nonsense"], "gpus": ["drain"]}
_TAKES_A_FILE = sorted(
    name for name, verb in VERBS.items()
    if not verb.hidden and name not in ("run", "add", "mcp", "attach", "schema", "gpus", "clean", "doctor", *_OWN_WORDS)
)  # fmt: skip


@pytest.mark.parametrize("verb", [*_OF_SELECTORS, "clean"])
def test_a_selector_that_means_nothing_is_refused_alike(tmp_path: Path, verb: str) -> None:
    (tmp_path / "tasks.toml").write_text(MIXED)
    done = typed_in(tmp_path, verb, "nobdy", *(["--keep-last", "0"] if verb == "clean" else []))
    told = done.err.splitlines()[-1]
    assert (done.code, told.startswith("gpudeck: "), "nobdy" in told) == (2, True, True), done.err


@pytest.mark.parametrize("verb", _TAKES_A_FILE)
def test_a_deck_that_is_not_there_is_refused_alike(tmp_path: Path, verb: str) -> None:
    words = {"select": ["x"], "other": ["--", "true"]}.get(VERBS[verb].words, [])
    words = {"priority": ["x", "1"], "fit": ["x", "--var", "bs=1..8"]}.get(verb, words)
    done = typed_in(tmp_path, verb, *words)
    assert done.code == 2, done.err
    alone = "no tasks.toml here or above: `gpudeck init` writes one; `gpudeck run -- CMD` needs none"
    runs = "`gpudeck run -- CMD` runs a command, `gpudeck init` writes a file"
    empty = f"no tasks.toml here or above, and your queue is empty: {runs}"
    assert done.err in (f"gpudeck: {alone}\n", f"gpudeck: {empty}\n")
    assert ("queue" in done.err) == (
        verb
        in (
            "ls",
            "status",
            "wait",
            "logs",
            "show",
            "explain",
            "retry",
            "cancel",
            "kill",
            "hold",
            "release",
            "accept",
            "priority",
        )
    )


@pytest.mark.parametrize("verb", sorted(_OWN_WORDS))
def test_other_mistakes_are_told_alike(tmp_path: Path, verb: str) -> None:
    (tmp_path / "tasks.toml").write_text(MIXED)
    done = typed_in(tmp_path, verb, *_OWN_WORDS[verb])
    assert (done.code, done.err.startswith("gpudeck: "), done.err.count("\n")) == (2, True, 1), done.err


@pytest.mark.parametrize("verb", sorted(name for name in VERBS if name != "run"))
def test_an_option_that_nobody_knows_is_told_alike(tmp_path: Path, verb: str) -> None:
    done = typed_in(tmp_path, *([] if verb == "deck" else [verb]), "--nonsense")
    assert (done.code, done.err.startswith("gpudeck: "), done.err.count("\n")) == (2, True, 1), done.err


def test_problems_of_a_task_file_begin_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(
        MIXED.replace("needs", "neds").replace('name = "good"', 'name = "good"\ncmd = "x"')
    )
    for words in (["check"], ["plan"], ["--headless"], ["unpause"]):
        done = typed_in(tmp_path, *words)
        assert done.code == 2
        places = [line.partition(": ")[0] for line in done.err.splitlines()]
        assert all(place.rpartition("/")[2].startswith("tasks.toml:") for place in places), done.err
