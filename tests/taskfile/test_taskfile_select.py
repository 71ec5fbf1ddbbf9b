"""Which tasks --only, --exclude, --limit and a SEL mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gpudeck.engine.core.selector import Subject, parse_selector
from gpudeck.engine.core.spec import DeckSettings, TaskSpec
from gpudeck.engine.errors import UsageError
from tests.inside.taskfile import RunOptions, load

KNOWN = "state:, reason:, tag:, gpu:, entry:, group:, round:, node: and job:"
TEXT = """
[[task]]
name = "prepare"
command = "p"
tags = ["data"]
[[task]]
name = "train-{noise}-{rate}"
command = "t {noise} {rate}"
matrix.noise = ["sym", "asym"]
matrix.rate = [0.25, 0.50]
needs = ["prepare"]
[[task]]
name = "report"
command = "r"
after = ["train-*"]
"""


def chosen(tmp_path: Path, **options: object) -> list[str]:
    path = tmp_path / "tasks.toml"
    path.write_text(TEXT)
    made = load(str(path), RunOptions(**options))  # pyright: ignore[reportArgumentType]
    assert made.selected is not None
    return [task.name for task in made.tasks if task.name in made.selected]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"only": ("prepare",)}, ["prepare"]),
        ({"only": ("report", "prepare")}, ["prepare", "report"]),
        ({"only": ("report,prepare",)}, ["prepare", "report"]),
        ({"only": ("noise=sym", "rate=0.25")}, ["train-sym-0.25"]),
        ({"only": ("prepare", "train-*", "rate=0.25,0.5", "-noise=sym")}, ["train-asym-0.25", "train-asym-0.50"]),
        ({"only": ("-train-*",)}, ["prepare", "report"]),
        ({"only": ("entry:report,prepare",)}, ["prepare", "report"]),
        ({"exclude": ("tag:data", "noise=sym")}, ["train-asym-0.25", "train-asym-0.50", "report"]),
        ({"only": ("train-sym-*",)}, ["train-sym-0.25", "train-sym-0.50"]),
        ({"only": ("noise=asym",)}, ["train-asym-0.25", "train-asym-0.50"]),
        ({"only": ("rate=0.5",)}, ["train-sym-0.50", "train-asym-0.50"]),
        ({"only": ("noise=sym rate=0.25",)}, ["train-sym-0.25"]),
        ({"exclude": ("train-*",)}, ["prepare", "report"]),
        ({"only": ("train-*",), "exclude": ("noise=sym",)}, ["train-asym-0.25", "train-asym-0.50"]),
        ({"limit": 1}, ["prepare", "train-sym-0.25", "report"]),
        ({"only": ("noise=asym",), "limit": 1}, ["train-asym-0.25"]),
        ({"only": ("train-sym-0.25",), "with_needs": True}, ["prepare", "train-sym-0.25"]),
        (
            {"only": ("report",), "with_needs": True},
            ["prepare", *(f"train-{noise}-{rate}" for noise in ("sym", "asym") for rate in ("0.25", "0.50")), "report"],
        ),
    ],
)
def test_options_choose_tasks(tmp_path: Path, options: dict[str, object], names: list[str]):
    assert chosen(tmp_path, **options) == names


def test_without_options_nothing_is_chosen_in_particular(tmp_path: Path):
    path = tmp_path / "tasks.toml"
    path.write_text(TEXT)
    assert load(str(path)).selected is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": ("raport",)}, "--only raport: no task matches: did you mean report?"),
        ({"only": ("x-*",)}, "--only x-*: no task matches"),
        ({"only": ("train",)}, "--only train: no task matches: did you mean train*?"),
        ({"only": ("train-sym-2.5e-1",)}, "--only train-sym-2.5e-1: no task matches: did you mean train-sym-0.25?"),
        ({"only": ("train-*-2.5e-1*",)}, "--only train-*-2.5e-1*: no task matches: did you mean train-*-0.25*?"),
        ({"only": ("rate=5e-1*",)}, "--only rate=5e-1*: no task matches: did you mean rate=0.50*?"),
        ({"only": ("train-*-7.5e-1*",)}, "--only train-*-7.5e-1*: no task matches"),
        ({"only": ("train-asym-0.75",)}, "--only train-asym-0.75: no task matches"),
        ({"only": ("tarin-asym-0.25",)}, "--only tarin-asym-0.25: no task matches: did you mean train-asym-0.25?"),
        ({"only": ("niose=sym",)}, "--only niose=sym: no task matches: did you mean noise=sym?"),
        ({"only": ("noise=asymm",)}, "--only noise=asymm: no task matches: did you mean noise=asym?"),
        ({"only": ("colour=red",)}, "--only colour=red: no task matches"),
        ({"only": ("tag:dtaa",)}, "--only tag:dtaa: no task matches: did you mean tag:data?"),
        ({"only": ("sate:failed",)}, "sate:failed: did you mean state:failed?"),
        ({"exclude": ("*",)}, "--exclude leaves no task"),
        (
            {"only": ("state:failed",)},
            "--only state:failed: states, reasons and GPUs are known only of a deck that has run",
        ),
        ({"only": ("state:fialed",)}, "state:fialed: did you mean state:failed?"),
        ({"only": ("colour:red",)}, f"colour:red: there is no colour: ({KNOWN} are known); a value is colour=red"),
        ({"only": ("state:done",)}, "state:done: did you mean state:succeeded?"),
        ({"only": ("round=0",)}, "--only round=0: no task matches: did you mean round:0?"),
        ({"only": ("tag:",)}, "tag: nothing after the colon"),
        ({"only": (" ",)}, 'an empty selector: use a name, a glob such as "train-*", or state:failed'),
    ],
)
def test_a_selector_that_can_match_nothing_is_refused(tmp_path: Path, options: dict[str, object], message: str):
    with pytest.raises(UsageError) as caught:
        chosen(tmp_path, **options)
    assert str(caught.value) == message


def test_states_can_be_chosen_where_they_are_known(tmp_path: Path):
    path = tmp_path / "tasks.toml"
    path.write_text(TEXT)

    def look(_: DeckSettings, tasks: Sequence[TaskSpec]) -> list[Subject]:
        return [Subject(task.name, states=("failed",) if "asym" in task.name else ("succeeded",)) for task in tasks]

    made = load(str(path), RunOptions(only=("state:failed",)), look=look)
    assert made.selected == {"train-asym-0.25", "train-asym-0.50"}


SUBJECT = Subject(
    "train-lr=0.1", ("base",), {"lr": "1e-1", "noise": "sym"}, "train", "g", 2, ("failed", "stale"), "missing output",
    ("5", "GPU-5f2a"), ("node3",), "77_4",
)  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "train-lr=0.1", "train-*", "lr=0.1", "lr=1e-1", "noise=s*", "state:failed", "state:stale",
        "reason:missing-output", "reason:missing_output", "tag:base", "gpu:5", "gpu:GPU-5f", "state:failed tag:b*",
        "state:running,failed", "-state:running", "-tag:x,y", "lr=0.2,0.1", "eval train-*", "entry:train", "group:g",
        "round:1,2", "node:node*", "job:77", "job:77_4",
    ],
)  # fmt: skip
def test_a_selector_matches(text: str):
    assert parse_selector([text]).matches(SUBJECT)


@pytest.mark.parametrize(
    "text",
    [
        "train", "lr=0.2", "noise=asym", "state:running", "reason:oom", "tag:x", "gpu:50", "state:failed tag:x", "x=1",
        "-state:failed", "train-* -lr=0.1", "eval state:failed", "round:1", "job:4",
    ],
)  # fmt: skip
def test_a_selector_does_not_match(text: str):
    assert not parse_selector([text]).matches(SUBJECT)
