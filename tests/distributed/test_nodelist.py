"""Slurm's short lists of hosts, counted out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudeck.distributed.errors import DistributedError
from gpudeck.distributed.place import hosts

_NAMES = st.text("abcxyz-.", min_size=1, max_size=4)


@st.composite
def _brackets(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A bracket and the numbers that it stands for."""
    ranges: list[str] = []
    numbers: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        width = draw(st.integers(1, 4))
        first = draw(st.integers(0, 10**width - 1))
        last = first + draw(st.integers(0, 12))
        ranges.append(
            f"{first:0{width}d}-{last:0{width}d}" if draw(st.booleans()) or last > first else f"{first:0{width}d}"
        )
        numbers += [f"{number:0{width}d}" for number in range(first, last + 1)]
    return f"[{','.join(ranges)}]", numbers


@st.composite
def _lists(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A list in its short form, and the hosts in it."""
    shorts: list[str] = []
    found: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        short, names = draw(_NAMES), [""]
        names = [short]
        for _ in range(draw(st.integers(0, 2))):
            bracket, numbers = draw(_brackets())
            between = draw(st.sampled_from(["", "-ib", "x"]))
            short += bracket + between
            names = [name + number + between for name in names for number in numbers]
        shorts.append(short)
        found += names
    return ",".join(shorts), found


@given(_lists())
def test_every_short_form_is_counted_out(case: tuple[str, list[str]]) -> None:
    short, names = case
    assert hosts(short) == names


@pytest.mark.parametrize(
    ("short", "names"),
    [
        ("node1", ["node1"]),
        ("login1,node[01-04]", ["login1", "node01", "node02", "node03", "node04"]),
        ("rack[1-2]-node[3-4]", ["rack1-node3", "rack1-node4", "rack2-node3", "rack2-node4"]),
        ("node[1,3-4]-ib", ["node1-ib", "node3-ib", "node4-ib"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("tux[0-1][2-3].example.org", [f"tux{number}.example.org" for number in ("02", "03", "12", "13")]),
        (" a1 , b[1-2] ", ["a1", "b1", "b2"]),
    ],
)
def test_forms_of_real_clusters(short: str, names: list[str]) -> None:
    assert hosts(short) == names


@pytest.mark.parametrize(
    "text", ["", "node[1-", "node]1[", "node[]", "node[3-1]", "a,,b", "n[[1-2]]", "n[a-b]", "n[0-99999999]"]
)
def test_what_is_no_list_is_an_error(text: str) -> None:
    with pytest.raises(DistributedError, match="not a list of hosts"):
        hosts(text)
