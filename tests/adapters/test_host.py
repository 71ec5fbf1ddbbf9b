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


@pytest.mark.parametrize(
    ("groups", "quotas", "cores"),
    [
        pytest.param(["0::/user.slice/job"], {"/user.slice/job": "400000 100000"}, 4, id="our own"),
        pytest.param(["0::/s/job/0"], {"/s/job/0": "max 100000", "/s": "1600000 100000"}, 16, id="an ancestor's"),
        pytest.param(["0::/"], {"/": "max 100000"}, 64, id="without limit"),
        pytest.param(["0::/"], {"/": "250000 100000"}, 2, id="a part of a core is not one more"),
        pytest.param(["0::/"], {"/": "20000 100000"}, 1, id="there is always one core"),
        pytest.param(["4:cpu,cpuacct:/x", "0::/"], {"cpu,cpuacct/x": (800000, 100000)}, 8, id="of the first version"),
        pytest.param(["4:cpu:/"], {"cpu": (-1, 100000)}, 64, id="minus one is none in the first version"),
        pytest.param(["4:cpu:/docker/abc"], {"cpu": (300000, 100000)}, 3, id="only our part of the tree is seen"),
    ],
)
@pytest.mark.usefixtures("many_cores")
def test_a_quota_of_our_cgroup_limits_the_cores(
    tree: Tree, groups: list[str], quotas: dict[str, str | tuple[int, int]], cores: int
) -> None:
    tree.belongs_to(*groups)
    for path, said in quotas.items():
        files = {"cpu.max": said}
        if isinstance(said, tuple):
            files = dict(zip(("cpu.cfs_quota_us", "cpu.cfs_period_us"), map(str, said), strict=True))
        tree.group(path, files)
    assert tree.cores() == cores


# -- memory -----------------------------------------------------------------------------------------------------------


def test_without_limits_memory_is_the_boxs(tree: Tree) -> None:
    assert tree.available_mib() == 32 * GIB_MIB


@pytest.mark.parametrize(
    ("files", "gib"),
    [
        pytest.param({"max": 16, "current": 10}, 6, id="what a cgroup leaves"),
        pytest.param({"max": 16, "current": 10, "stat": 8}, 14, id="and page cache that would be dropped"),
        pytest.param({"max": 512, "current": 0}, 32, id="a limit wider than the box changes nothing"),
        pytest.param({"high": 1, "current": 2}, 0, id="above its limit nothing is left"),
    ],
)
def test_what_a_cgroup_leaves_is_what_is_available(tree: Tree, files: dict[str, int], gib: int) -> None:
    tree.belongs_to("0::/job")
    for name, value in files.items():
        tree.group("/job", {f"memory.{name}": "anon 1\ninactive_file " * (name == "stat") + str(value << 30)})
    assert tree.available_mib() == gib * GIB_MIB


def test_limits_of_the_first_cgroup_version_count_too(tree: Tree) -> None:
    tree.belongs_to("4:memory:/docker/abc")
    files = {"memory.limit_in_bytes": str(8 << 30), "memory.usage_in_bytes": str(5 << 30)}
    tree.group("memory/docker/abc", files | {"memory.stat": f"total_inactive_file {1 << 30}"})
    assert tree.available_mib() == 4 * GIB_MIB


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
