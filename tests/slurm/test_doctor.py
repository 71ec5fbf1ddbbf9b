"""`gpudeck doctor` against a real Slurm."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

import pytest

from tests.e2e.decks import Deck, until
from tests.inside.slurm import Call, Wish, look, try_job
from tests.slurm.rig import Cluster

pytestmark = pytest.mark.slurm

DECK = """
    [deck]
    backend = "slurm"
    [slurm]
    partition = "{partition}"
    time = "5m"
    [[task]]
    name = "a"
    gpus = {gpus}
    command = "true"
"""


def lines(deck: Deck, **values: object) -> dict[str, str]:
    """What doctor says, by check."""
    deck.write(DECK.format(**{"partition": "main", "gpus": 2, **values}))
    deck.write("raise ModuleNotFoundError('none here', name='torch')\n", "torch.py")
    ran = deck.command("doctor")
    return {line[6:28].strip(): line for line in ran.out.splitlines()}


def test_a_sound_deck_has_no_failure_and_doctor_leaves_nothing(deck: Deck, cluster: Cluster):
    said = lines(deck)
    assert all(not line.startswith("FAIL") for line in said.values()), said
    assert said["partition"].startswith("ok    partition              main: up, 2 of 2 nodes up, 8 of 8 GPUs free")
    assert "ran on node" in said["trial job"]
    assert "(ext4)" in said["log_dir"] or "seen here" in said["log_dir"]
    assert {*os.listdir(deck.folder)} <= {"tasks.toml", "torch.py", "__pycache__"}
    until(lambda: cluster.active() == [])  # Slurm completes its trial job


@pytest.mark.parametrize(
    ("values", "check", "part"),
    [
        ({"partition": "mian"}, "partition", "did you mean main?"),
        ({"gpus": 5}, "job requests", "Requested node configuration is not available"),
    ],
)
def test_what_slurm_would_refuse_fails_before_anything_is_submitted(
    deck: Deck, values: dict[str, object], check: str, part: str
):
    said = lines(deck, **values)
    assert said[check].startswith("FAIL")
    assert part in said[check]
    assert "trial job" not in said


def test_all_gpus_are_as_many_as_slurm_says_that_a_node_has(deck: Deck, cluster: Cluster):
    said = lines(deck, gpus='"all"')
    assert [said[check][:2] for check in ("task file", "job requests")] == ["ok", "ok"]


def test_a_controller_that_is_down_is_one_failure(deck: Deck, cluster: Cluster):
    cluster.stop_controller()
    said = lines(deck)
    assert "Unable to contact slurm controller" in said["Slurm"]
    assert "partition" not in said


def test_a_trial_job_that_does_not_begin_is_cancelled(cluster: Cluster, tmp_path: Path):
    cluster.submit("sleep 100", "--nodes=2", "--exclusive")
    wish = Wish("a", (), (), "", "", "", 0, (), array=False, python="", cwd="/")
    trial = try_job(Call({**os.environ, **cluster.env}), wish, str(tmp_path / "logs"), limit_s=3.0)
    assert trial.state.startswith("PENDING")
    assert [job.name for job in cluster.active()] == ["wrap"]
    assert os.listdir(tmp_path) == []


def test_accounts_are_read_where_somebody_keeps_them(accounted_cluster: Cluster):
    user = getpass.getuser()
    for words in (("account", "physics"), ("user", user, "account=physics")):
        accounted_cluster.call("sacctmgr", "-i", "add", *words)
    facts = look(Call({**os.environ, **accounted_cluster.env}))
    assert "physics" in (facts.associations or ())


def test_without_accounting_none_are_read(cluster: Cluster):
    assert look(Call({**os.environ, **cluster.env})).associations is None


def test_how_long_and_how_many_jobs_may_be_is_read_where_slurm_says_it(accounted_cluster: Cluster):
    facts = look(Call({**os.environ, **accounted_cluster.env}))
    assert (dict(facts.times), facts.most_submitted) == ({}, None)
    accounted_cluster.call("scontrol", "update", "PartitionName=high", "MaxTime=90")
    accounted_cluster.call("sacctmgr", "-i", "modify", "qos", "normal", "set", "MaxSubmitJobsPerUser=5")
    try:
        facts = look(Call({**os.environ, **accounted_cluster.env}))
        assert (dict(facts.times), facts.most_submitted) == ({"high": 5400.0}, 5)
    finally:
        accounted_cluster.call("scontrol", "update", "PartitionName=high", "MaxTime=INFINITE")
        accounted_cluster.call("sacctmgr", "-i", "modify", "qos", "normal", "set", "MaxSubmitJobsPerUser=-1")
