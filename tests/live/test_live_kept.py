"""What running attempts were started as is there for the next engine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gpudeck.engine.core.build import build
from gpudeck.engine.core.events import AttemptEnded, AttemptStarting, Outcome
from gpudeck.engine.core.gone import Kept
from gpudeck.engine.core.recorded import recorded
from gpudeck.engine.core.spec import (
    Asks,
    CardWork,
    DeckFile,
    DeckSettings,
    Extras,
    Metric,
    Policy,
    Resources,
    Resume,
    TaskSpec,
    Watch,
    Work,
)
from tests.inside.live import kept_load as load
from tests.inside.live import save, take_back

FULL = TaskSpec(
    name="a",
    entry="a-{x}",
    position=3,
    work=Work(("python", "train.py"), (("SEED", "1"), ("DEBUG", None))),
    fingerprint="f",
    resources=Resources(gpus="all", gpu_memory_mib="auto", gpu_ids=("0",)),
    policy=Policy(retry_on=frozenset({"fail", "oom"}), success_codes=frozenset({0, 7}), timeout_s=3.5),
    cwd="/work",
    python_env=(("VIRTUAL_ENV", "/v"),),
    params={"x": "1"},
    outputs=("/out/a",),
    ladder=(Work("smaller"),),
    on_oom=(Asks(gpus=2, stop_scope="leader"),),
    on_timeout=(Asks(timeout_s=3.0, slurm=(("time", 3.0),)),),
    steps=(CardWork("", 0, Work("late"), (Work("late and smaller"),)),),
    cards=(CardWork("80GiB", 80, Work("large"), steps=(CardWork("", 0, Work("large and late")),)),),
    resume=Resume(("python", "resume.py"), ("*.pt",)),
    extras=Extras(metrics=(Metric("acc", regex="acc=(.*)"),), watch=Watch(silent_s=1.0), slurm=(("mem", 3),)),
)


def starting(token: str, task: str = "a", attempt: int = 1) -> AttemptStarting:
    return AttemptStarting(task, attempt, token, "f", (), 1, 0, 1.0, 1.0)


def ended(task: str = "a", attempt: int = 1) -> AttemptEnded:
    return AttemptEnded(task, attempt, Outcome("ok", 0), 2.0, 2.0, 1.0, "succeeded")


def test_a_spec_comes_back_as_it_was(tmp_path: Path):
    kept = [Kept("token", FULL, ("b",))]
    save(str(tmp_path), kept)
    assert load(str(tmp_path), {"token"}) == kept


def test_attempts_that_have_ended_are_forgotten(tmp_path: Path):
    save(str(tmp_path), [Kept("first", FULL), Kept("second", FULL)])
    journal = recorded([starting("first"), ended(), starting("second", attempt=2)])
    assert [one.token for one in load(str(tmp_path), journal.lasting_tokens)] == ["second"]


def test_nothing_to_keep_leaves_no_file(tmp_path: Path):
    save(str(tmp_path), [Kept("token", FULL)])
    save(str(tmp_path), [])
    save(str(tmp_path), [])
    assert os.listdir(tmp_path) == []


def test_only_the_user_may_read_it(tmp_path: Path):
    save(str(tmp_path), [Kept("token", FULL)])
    assert [stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()] == [0o600]


def test_a_file_that_cannot_be_read_keeps_nothing(tmp_path: Path):
    (tmp_path / "kept.json").write_text('[{"token": 1')
    assert load(str(tmp_path), {"token"}) == []


def test_a_deck_knows_its_tasks_that_are_gone_before_their_facts_come():
    file = DeckFile("/t.toml", "t", DeckSettings(), (TaskSpec("b", "b", 0, Work("x"), "f"),))
    deck = build(file, gpus=[], cores=4)
    kept = [Kept("one", FULL), Kept("two", TaskSpec("b", "b", 0, Work("old"), "old"))]
    take_back(deck, kept, recorded([]))
    assert deck.by_name["a"].gone
    assert deck.begun["two"].work == Work("old")
