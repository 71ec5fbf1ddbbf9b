"""`gpudeck doctor` on Slurm, just at the limits."""

from __future__ import annotations

from gpudeck.engine.adapters.slurm.cluster import partitions_of
from gpudeck.engine.doctor.slurm_checks import check_gpus, check_limits
from gpudeck.engine.doctor.slurm_look import SlurmFacts
from gpudeck.engine.doctor.slurm_wishes import Wish

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
