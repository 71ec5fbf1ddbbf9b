"""Who has which GPU, as somebody sees it who has none."""

from __future__ import annotations

import json
import os
from pathlib import Path

from gpudeck.engine.ports import GpuInfo, Inventory
from tests.inside.adapters import Claim, Claims, claims_on, report

GPUS = ("GPU-0", "GPU-1", "GPU-2")


def claims_of(deck: str, folder: Path) -> Claims:
    return Claims(deck, f"/state/of/{deck}", str(folder), lambda _: None)


def environ(folder: Path) -> dict[str, str]:
    return {"GPUDECK_LOCK_DIR": str(folder)}


def test_each_gpu_is_told_with_its_deck_and_tasks(tmp_path: Path) -> None:
    one, two = claims_of("pets", tmp_path), claims_of("noise", tmp_path)
    wrappers = [one.take("a", ["GPU-0"], "train-1"), two.take("b", ["GPU-2"], "train-7")]
    for claims in (one, two):
        claims.others(GPUS)  # a deck tells what it runs within a second
    found = claims_on(GPUS, environ(tmp_path))
    assert {uuid: (claim.deck, claim.engine, claim.tasks) for uuid, claim in found.items()} == {
        "GPU-0": ("pets", os.getpid(), ("train-1",)),
        "GPU-2": ("noise", os.getpid(), ("train-7",)),
    }
    for wrapper in filter(None, wrappers):
        os.close(wrapper)
    one.close()
    two.close()
    assert claims_on(GPUS, environ(tmp_path)) == {}


def test_looking_makes_nothing_and_is_in_nobodys_way(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    assert claims_on(GPUS, environ(folder)) == {}
    assert not folder.exists()
    claims = claims_of("pets", folder)
    first = claims.take("a", ["GPU-0"], "t")
    assert list(claims_on(GPUS, environ(folder))) == ["GPU-0"]
    second = claims.take("b", ["GPU-1"], "t")
    for wrapper in filter(None, (first, second)):
        os.close(wrapper)
    claims.close()


def test_a_deck_that_closes_lets_go_of_what_it_kept_for_an_attempt(tmp_path: Path) -> None:
    claims = claims_of("pets", tmp_path)
    kept = claims.take("a", ["GPU-0"], "t")
    assert kept is not None
    claims.keep("a", kept)
    claims.close()
    assert claims_on(GPUS, environ(tmp_path)) == {}


def test_the_report_names_them(tmp_path: Path) -> None:
    claims = claims_of("pets", tmp_path)
    wrapper = claims.take("a", ["GPU-0"], "train-1")
    found = claims_on(GPUS, environ(tmp_path))
    inventory = Inventory(gpus=tuple(GpuInfo(uuid, index, "A40", 46068) for index, uuid in enumerate(GPUS)))
    lines = report(inventory, (), as_json=False, claims=found).splitlines()
    (told,) = [line for line in lines if line.startswith("GPU 0: ")]
    assert told.startswith("GPU 0: deck pets of ")
    assert told.endswith(f"(engine {os.getpid()}): train-1")
    as_json = json.loads(report(inventory, (), as_json=True, claims=found))["gpus"]
    assert [gpu["claim"] and gpu["claim"]["deck"] for gpu in as_json] == ["pets", None, None]
    assert wrapper is not None
    os.close(wrapper)
    claims.close()


def test_of_many_tasks_of_a_deck_on_one_gpu_four_are_named() -> None:
    found = Claim("deck pets of alice has it", tasks=("a", "b", "c", "d", "e", "f"))
    lines = report(
        Inventory(gpus=(GpuInfo("GPU-0", 0, "A40", 46068),)), (), as_json=False, claims={"GPU-0": found}
    ).splitlines()
    assert "GPU 0: deck pets of alice has it: a, b, c, d and 2 more" in lines
