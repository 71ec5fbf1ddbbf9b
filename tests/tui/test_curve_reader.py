"""The process that reads curves from logs, and who listens to it."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.inside.tui import ALIKE, Curve, Curves, KeptCurves, encode_kept, from_wire, lines_from, proc, sampled
from tests.inside.tui import curves_reader as reader

_PATIENCE_S = 30.0


def order(folder: Path, *, running: bool = False, metrics: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    out, err = str(folder / "attempt-1.log"), str(folder / "attempt-1.err")
    kept = str(folder / "attempt-1.curves.json")
    return {"kept": kept, "out": out, "err": err, "metrics": list(metrics), "started": 0.0, "running": running}


def curves_in(line: str) -> tuple[Curve, ...]:
    return from_wire(json.loads(line)[1])


def metric(name: str, **more: str) -> dict[str, Any]:
    return {"name": name, "regex": "", "file": "", "key": "", "best": "last", **more}


def read(folder: Path, **how: Any) -> dict[str, Curve]:
    """What the reader tells of an attempt that is over."""
    told: list[str] = []
    reader.run([order(folder, **how)], told.append, lambda: True)
    return {curve.name: curve for curve in curves_in(told[-1])}


def test_a_log_of_an_attempt_that_is_over_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "attempt-1.log").write_text("epoch 1/3 loss=3\nepoch 2/3 loss=2\nepoch 3/3 loss=1")
    assert read(tmp_path)["loss"].points == ((1, 3), (2, 2), (3, 1))


def test_bars_on_stderr_count_too(tmp_path: Path) -> None:
    (tmp_path / "attempt-1.err").write_bytes(b" 10%|# | 1/10 [00:01, loss=3]\r 20%|## | 2/10 [00:01, loss=2]\r")
    assert read(tmp_path)["loss"].points == ((1, 3), (2, 2))


def test_a_curve_grows_with_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PERIOD_S", 0.0)
    log, told = tmp_path / "attempt-1.log", list[str]()
    log.write_text("loss=3\n")

    def goes_on() -> bool:
        if told:
            with log.open("a") as file:
                file.write("loss=2\n")
        return len(told) < 2

    reader.run([order(tmp_path, running=True)], told.append, goes_on)
    assert [curves_in(text)[0].count for text in told] == [1, 2]


def test_patterns_of_the_task_file_say_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "attempt-1.log").write_text("score is <7>\nscore is <8>\nloss=1\n")
    found = read(tmp_path, metrics=(metric("score", regex="<([0-9]+)>"),))
    assert {name: curve.last for name, curve in found.items()} == {"score": 8.0}


def test_a_file_with_an_object_a_line_is_a_curve(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text('{"map": 0.1}\n{"map": 0.2}\n{"map": 0.4}\n')
    found = read(tmp_path, metrics=(metric("map", file=str(tmp_path / "m.jsonl"), key="map"),))
    assert found["map"].points == ((0, 0.1), (1, 0.2), (2, 0.4))


def test_a_pattern_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PATTERN_CPU_S", 0.1)
    (tmp_path / "attempt-1.log").write_text("a" * 60 + "!\n::gpudeck wer=1\n")
    assert list(read(tmp_path, metrics=(metric("x", regex="(a+)+$"),))) == ["wer"]


def test_what_is_kept_is_told_in_place_of_what_a_log_says(tmp_path: Path) -> None:
    curves = Curves(named=True)
    curves.add("loss", 7.0, ("step", 1.0), 2.5)
    (tmp_path / "attempt-1.curves.json").write_bytes(encode_kept(KeptCurves(curves.curves(), "t")))
    (tmp_path / "attempt-1.log").write_text("loss=3 acc=0.5\n")
    asked = (metric("loss", regex="loss=(.)"), metric("acc", regex="acc=(...)"))
    found = read(tmp_path, metrics=asked)
    assert (found["loss"].points, found["loss"].at_s, found["acc"].last) == (((1, 7),), (2.5,), 0.5)


def test_no_logs_are_no_curves(tmp_path: Path) -> None:
    assert read(tmp_path) == {}


async def test_a_process_tells_what_it_has_read_until_nobody_listens(tmp_path: Path) -> None:
    (tmp_path / "attempt-1.log").write_text("loss=3\n")
    others = _readers()
    heard = asyncio.Event()

    async def hear() -> None:
        async for line in lines_from("curve_reader", json.dumps([order(tmp_path, running=True)])):
            if "loss" in {curve.name for curve in curves_in(line)}:
                heard.set()

    hearing = asyncio.create_task(hear())
    await asyncio.wait_for(heard.wait(), _PATIENCE_S)
    before = _readers() - others
    assert before
    hearing.cancel()
    async with asyncio.timeout(_PATIENCE_S):
        while before & _readers():
            await asyncio.sleep(0.01)


async def test_a_process_ends_with_the_attempt(tmp_path: Path) -> None:
    (tmp_path / "attempt-1.log").write_text("loss=9\nloss=8\n")
    told = [line async for line in lines_from("curve_reader", json.dumps([order(tmp_path)]))]
    assert curves_in(told[-1])[0].points == ((0, 9), (1, 8))


def test_of_many_lines_that_differ_in_numbers_a_part_is_taken_and_rare_ones_stay() -> None:
    lines = [f"step {at}: loss={at}" for at in range(3 * ALIKE)]
    lines[4321] = "validation: wer=0.3"
    kept = sampled(lines)
    assert "validation: wer=0.3" in kept
    assert ALIKE * 0.9 <= len(kept) <= ALIKE + 1


def _readers() -> set[int]:
    found: set[int] = set()
    for pid in proc.everyone():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if b"gpudeck.tui.curve_reader" in words and int(status[1]) == os.getpid() and status[0] != "Z":
            found.add(pid)
    return found
