"""`gpudeck doctor` on Slurm, just at the limits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.inside.doctor import (
    FAILED,
    NEEDED,
    Call,
    SlurmFacts,
    Trial,
    Wish,
    check_gpus,
    check_trial,
    look,
    partitions_of,
)
from tests.inside.doctor import slurm_checks_check_limits as check_limits

PLAIN = Wish("a", (), (), "", "", "", 0, (), array=False, python="", cwd="/")


def levels(count: int) -> list[str]:
    facts = SlurmFacts(config={"MaxJobCount": str(count), "MaxArraySize": "1001", "MinJobAge": "300 sec"})
    return [found.level for found in check_limits(facts, [PLAIN], 200, sacct=True)]


def test_a_cluster_that_holds_no_more_jobs_than_the_deck_submits_is_full_of_them() -> None:
    assert [levels(200), levels(201)] == [["warn"], ["ok"]]


def test_a_partition_without_gpus_is_told_once_though_a_type_is_wanted() -> None:
    facts = SlurmFacts(partitions=tuple(partitions_of("main*|up|idle|2|0/16/0/16|(null)|(null)|\n")))
    wish = Wish("a", (), (), "", "", "", 1, ("a100",), array=False, python="", cwd="/")
    assert len(list(check_gpus(facts, [wish]))) == 1


@pytest.mark.parametrize("state", ["", "COMPLETED", *sorted(FAILED)])
def test_a_trial_job_is_over_whatever_word_slurm_has_for_that(state: str) -> None:
    (found,) = check_trial(Trial("/logs", "ext4", "12", state=state and f"{state} None"), PLAIN)
    assert (found.level, found.check) == ("fail", "log_dir")


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """A PATH with programs of one that keeps accounts."""
    programs = dict.fromkeys((*NEEDED, "sacctmgr"), "true")
    programs["scontrol"] = "echo 'AccountingStorageType = accounting_storage/slurmdbd'"
    programs["sacctmgr"] = "echo 'physics|normal'"
    for name, text in programs.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


def test_accounts_are_looked_up_by_the_users_name(cluster: str) -> None:
    assert look(Call({"PATH": cluster})).associations == {"physics": ["normal"]}


def test_a_user_without_a_name_has_no_accounts_to_look_up(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4_242_424)
    assert look(Call({"PATH": cluster})).associations is None
