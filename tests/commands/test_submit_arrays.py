"""Which tasks of `gpudeck submit` share an array, and what its limit is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpudeck.engine.core.spec import DeckSettings, Policy, Resources, TaskSpec, Work
from tests.fakes.job_rig import order_in
from tests.inside.commands import Piece, Unit, Waits, not_expressed, units_of


def piece(name: str, entry: str = "e", *, limit: int | None = None, waits: Waits | None = None, cpus: int = 1,
          array: bool = True) -> Piece:  # fmt: skip
    spec = TaskSpec(name, entry, 0, Work(("true",)), "f", resources=Resources(max_parallel=limit))
    order = order_in(Path("/work"), task=name, cpus=cpus, options={"array": array})
    order = replace(order, token=f"token-{name}")
    return Piece(spec, order, "/l/a", "", b"", f"jobs/{name}", waits or Waits())


def made_of(*pieces: Piece) -> list[Unit]:
    return units_of(pieces, [f"{number:024x}" for number in range(len(pieces))], folder="jobs")


def shares(*pieces: Piece) -> list[list[str]]:
    return [[piece.spec.name for piece in unit.pieces] for unit in made_of(*pieces)]


def limits(found: list[Unit]) -> list[str]:
    return [line for unit in found for line in unit.text.splitlines() if "--array=" in line]


def test_tasks_that_ask_and_wait_for_the_same_share_an_array() -> None:
    assert shares(piece("a"), piece("b"), piece("c", cpus=2), piece("d", array=False)) == [["a", "b"], ["c"], ["d"]]


def test_tasks_that_wait_for_other_things_share_none() -> None:
    assert shares(piece("a"), piece("b", waits=Waits(("a",))), piece("c", waits=Waits(("a",)))) == [["a"], ["b", "c"]]


def test_a_limit_of_one_entry_is_not_put_on_tasks_of_another() -> None:
    assert shares(piece("a", "x", limit=1), piece("b", "y"), piece("c", "x", limit=1)) == [["a", "c"], ["b"]]


def test_an_array_that_has_all_of_an_entry_holds_its_limit() -> None:
    found = made_of(piece("a", limit=2), piece("b", limit=2), piece("c", limit=2))
    assert (limits(found)[0].endswith("--array=0-2%2"), found[0].at_once) == (True, 2)


def test_an_array_that_has_not_all_of_an_entry_cannot_hold_its_limit() -> None:
    found = made_of(piece("a", limit=1), piece("b", limit=1), piece("c", limit=1, cpus=2))
    assert (limits(found)[0].endswith("--array=0-1"), found[0].at_once) == (True, None)


def test_more_than_a_thousand_become_several_arrays() -> None:
    assert [len(group) for group in shares(*(piece(f"t{number}") for number in range(1001)))] == [1000, 1]


def test_a_limit_that_an_array_holds_is_not_told_as_lost() -> None:
    tasks = [piece("a", limit=1).spec, piece("b", "other", limit=1).spec]
    assert [line.partition(":")[0] for line in not_expressed(DeckSettings(), tasks, limited={"e"})] == [
        "max_parallel (other)"
    ]


def test_codes_that_slurm_takes_for_failures_are_told() -> None:
    spec = replace(piece("a").spec, policy=Policy(success_codes=frozenset({0, 3})))
    assert any(line.startswith("success_codes (a): ") for line in not_expressed(DeckSettings(), [spec], limited=()))
