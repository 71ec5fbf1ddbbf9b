"""Cores, memory, identity and file systems, on made-up /proc and cgroup trees and on this host."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.inside.adapters import host

GIB_MIB = 1024
_AFFINITY = len(os.sched_getaffinity(0))


class Tree:
    """A made-up /proc and /sys/fs/cgroup."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.cgroup = folder / "proc", folder / "cgroup"
        self.write(self.proc / "meminfo", "MemTotal: 67108864 kB\nMemFree: 1 kB\nMemAvailable: 33554432 kB\n")
        self.cgroup.mkdir()

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def belongs_to(self, *lines: str) -> None:
        self.write(self.proc / "self" / "cgroup", "".join(f"{line}\n" for line in lines))

    def group(self, path: str, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            self.write(self.cgroup / path.strip("/") / name, f"{text}\n")

    def cores(self) -> int:
        return host.cores(str(self.proc), str(self.cgroup))

    def available_mib(self) -> int:
        return host.mem_available_mib(str(self.proc), str(self.cgroup))

    def total_mib(self) -> int:
        return host.mem_total_mib(str(self.proc), str(self.cgroup))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(64)))


# -- cores ------------------------------------------------------------------------------------------------------------


def test_without_a_quota_the_affinity_counts(tree: Tree) -> None:
    assert tree.cores() == _AFFINITY


@pytest.mark.usefixtures("many_cores")
def test_a_quota_of_our_cgroup_limits_the_cores(tree: Tree) -> None:
    tree.belongs_to("0::/user.slice/job")
    tree.group("/user.slice/job", {"cpu.max": "400000 100000"})

    assert tree.cores() == 4


@pytest.mark.usefixtures("many_cores")
def test_a_quota_of_an_ancestor_limits_the_cores(tree: Tree) -> None:
    tree.belongs_to("0::/slurm/job_7/step_0")
    tree.group("/slurm/job_7/step_0", {"cpu.max": "max 100000"})
    tree.group("/slurm", {"cpu.max": "1600000 100000"})

    assert tree.cores() == 16


@pytest.mark.usefixtures("many_cores")
def test_a_quota_without_limit_limits_nothing(tree: Tree) -> None:
    tree.belongs_to("0::/")
    tree.group("/", {"cpu.max": "max 100000"})

    assert tree.cores() == 64


@pytest.mark.usefixtures("many_cores")
def test_a_part_of_a_core_is_not_one_more(tree: Tree) -> None:
    tree.belongs_to("0::/")
    tree.group("/", {"cpu.max": "250000 100000"})

    assert tree.cores() == 2


@pytest.mark.usefixtures("many_cores")
def test_there_is_always_one_core(tree: Tree) -> None:
    tree.belongs_to("0::/")
    tree.group("/", {"cpu.max": "20000 100000"})

    assert tree.cores() == 1


@pytest.mark.usefixtures("many_cores")
def test_a_quota_of_the_first_cgroup_version_counts_too(tree: Tree) -> None:
    tree.belongs_to("4:cpu,cpuacct:/docker/abc", "0::/")
    tree.group("cpu,cpuacct/docker/abc", {"cpu.cfs_quota_us": "800000", "cpu.cfs_period_us": "100000"})

    assert tree.cores() == 8


@pytest.mark.usefixtures("many_cores")
def test_minus_one_is_no_quota_in_the_first_cgroup_version(tree: Tree) -> None:
    tree.belongs_to("4:cpu:/")
    tree.group("cpu", {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"})

    assert tree.cores() == 64


@pytest.mark.usefixtures("many_cores")
def test_a_container_that_sees_only_its_own_part_of_the_tree_is_limited_by_it(tree: Tree) -> None:
    tree.belongs_to("4:cpu:/docker/abc")
    tree.group("cpu", {"cpu.cfs_quota_us": "300000", "cpu.cfs_period_us": "100000"})

    assert tree.cores() == 3


# -- memory -----------------------------------------------------------------------------------------------------------


def test_without_limits_memory_is_the_boxs(tree: Tree) -> None:
    assert tree.available_mib() == 32 * GIB_MIB


def test_what_a_cgroup_leaves_is_what_is_available(tree: Tree) -> None:
    tree.belongs_to("0::/job")
    tree.group("/job", {"memory.max": str(16 << 30), "memory.current": str(10 << 30)})

    assert tree.available_mib() == 6 * GIB_MIB


def test_page_cache_that_would_be_dropped_is_available(tree: Tree) -> None:
    tree.belongs_to("0::/job")
    tree.group("/job", {"memory.max": str(16 << 30), "memory.current": str(10 << 30)})
    tree.group("/job", {"memory.stat": f"anon 1\ninactive_file {8 << 30}"})

    assert tree.available_mib() == 14 * GIB_MIB


def test_a_limit_wider_than_the_box_changes_nothing(tree: Tree) -> None:
    tree.belongs_to("0::/job")
    tree.group("/job", {"memory.max": str(512 << 30), "memory.current": "0"})

    assert tree.available_mib() == 32 * GIB_MIB


def test_limits_of_the_first_cgroup_version_count_too(tree: Tree) -> None:
    tree.belongs_to("4:memory:/docker/abc")
    files = {"memory.limit_in_bytes": str(8 << 30), "memory.usage_in_bytes": str(5 << 30)}
    tree.group("memory/docker/abc", files | {"memory.stat": f"total_inactive_file {1 << 30}"})

    assert tree.available_mib() == 4 * GIB_MIB


def test_a_cgroup_above_its_limit_has_nothing_left(tree: Tree) -> None:
    tree.belongs_to("0::/job")
    tree.group("/job", {"memory.high": str(1 << 30), "memory.current": str(2 << 30)})

    assert tree.available_mib() == 0


def test_what_a_box_has_at_all_is_told_too(tree: Tree) -> None:
    assert tree.total_mib() == 64 * GIB_MIB


def test_what_a_cgroup_allows_is_all_there_is(tree: Tree) -> None:
    tree.belongs_to("0::/job")
    tree.group("/job", {"memory.max": str(16 << 30), "memory.current": str(10 << 30)})

    assert tree.total_mib() == 16 * GIB_MIB


# -- identity and clocks ----------------------------------------------------------------------------------------------


def test_a_boot_has_an_id_that_stays() -> None:
    assert len(host.boot_id()) == 36
    assert host.boot_id() == host.boot_id()


def test_the_second_place_of_the_machine_id_is_looked_at_where_the_first_is_missing(tmp_path: Path) -> None:
    (tmp_path / "dbus").write_text("0123abcd\n")

    assert host.machine_id((str(tmp_path / "etc"), str(tmp_path / "dbus"))) == "0123abcd"


def test_a_host_without_a_machine_id_is_told_by_its_name(tmp_path: Path) -> None:
    assert host.machine_id((str(tmp_path / "none"),)) == ""


def test_the_clock_never_goes_back() -> None:
    clock = host.SystemClock()

    assert clock.now().boot_s <= clock.now().boot_s <= host.boottime_s()
