"""Tests on a real Slurm, all of the set `slurm`. Where Slurm cannot be had they fail, they are not skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.decks import Deck
from tests.slurm.rig import Cluster, NoClusterError, running_cluster

_NEEDING = {"cluster", "accounted_cluster"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        here = item.path.parent == Path(__file__).parent
        needing = here and _NEEDING & set(getattr(item, "fixturenames", ()))
        if needing and not item.get_closest_marker("slurm"):
            raise pytest.UsageError(f"{item.nodeid} needs a cluster: it is of the set slurm")


@pytest.fixture(scope="session")
def _shared_cluster() -> Iterator[Cluster]:
    try:
        with running_cluster(NODES=2, GPUS=4, CPUS=8, KILL_WAIT=2) as cluster:
            yield cluster
    except NoClusterError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def cluster(_shared_cluster: Cluster) -> Iterator[Cluster]:
    """Two nodes of four GPUs and eight cores, without jobs; what the test before has broken runs again."""
    yield _shared_cluster
    if not _shared_cluster.is_up():
        _shared_cluster.start()
    _shared_cluster.cancel()


@pytest.fixture(scope="session")
def accounted_cluster() -> Iterator[Cluster]:
    """One node, with slurmdbd: sacct and sacctmgr answer, and the queue soon forgets."""
    try:
        with running_cluster(NODES=1, GPUS=4, CPUS=8, KILL_WAIT=2, ACCT=1, MIN_JOB_AGE=2) as cluster:
            yield cluster
    except NoClusterError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def deck(cluster: Cluster, tmp_path: Path) -> Iterator[Deck]:
    """A folder whose commands find the cluster."""
    deck = Deck(tmp_path)
    deck.env.update(cluster.env)
    yield deck
    deck.close()
