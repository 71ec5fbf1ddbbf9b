"""What `make gpu` asks of a real card, asked of two cards of the NVML double: a torch and an nvidia-smi that play on it
stand for what computes. NCCL and the figures of a card that burns are left to real ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.decks import Deck, caller_environment
from tests.fakes import nvidia_smi
from tests.fakes.nvml_double.box import Box
from tests.fakes.nvml_double.build import KINDS, outside
from tests.gpu import checks, smi
from tests.gpu.conftest import idle, refusal
from tests.gpu.machine import Machine
from tests.gpu.record import Lines, Record, file_name, markdown, tally, write

TORCH = Path(nvidia_smi.__file__).with_name("torch_double")
HERE = [check for check in checks.CHECKS if check is not checks.torchrun_adds_over_nccl]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    box = Box(tmp_path / "box.txt", 2)
    yield box
    box.release()


@pytest.fixture
def machine(tmp_path: Path, box: Box) -> Iterator[Machine]:
    if "library" not in KINDS:
        pytest.skip("no C compiler for the NVML double")
    environment = outside(box)[1]
    double = {name: environment[name] for name in ("LD_LIBRARY_PATH", "GPUDECK_NVML_DOUBLE")}
    nvidia_smi.install(tmp_path)
    double["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec env GPUDECK_NVML_DOUBLE={box.path} PYTHONPATH={TORCH} {sys.executable} "$@"\n')
    python.chmod(0o755)

    def prepare(deck: Deck) -> None:
        deck.env |= double
        deck.tune("engine.core.apply_attempt", SEEN_S=0.1)
        deck.tune("engine.core.learned", SEEN_S=0.1)

    env = {**caller_environment(), **double}
    machine = Machine(tmp_path, str(python), "played", [], prepare, env=env, pace=0.1, idle_percent=100)
    machine.cards = machine.box()["gpus"]
    with machine.stack:
        yield machine


@pytest.mark.parametrize("check", HERE, ids=lambda check: check.__name__)
def test_what_is_asked_of_a_real_card_holds_on_the_double(machine: Machine, check: checks.Check) -> None:
    lines = Lines(check.__name__)
    check(machine, lines)
    assert lines.broken == []
    assert any(line.verdict == "held" for line in lines.lines)


def test_a_field_that_nvidia_smi_tells_otherwise_does_not_hold(machine: Machine, box: Box) -> None:
    looks = smi.cards(machine.smi)[:1]
    box.set(**{"gpu.0.temp": 60, "gpu.0.util": None})
    compared = {one.asked: one for one in smi.compare(machine.told(), looks)}
    assert not compared["temperature_c is temperature.gpu within 2"].held
    assert compared["temperature_c is temperature.gpu within 2"].seen == "gpudeck 60, nvidia-smi 31"
    assert not compared["util_percent is utilization.gpu within 5"].held, "one tells it, the other does not"
    assert compared["used_mib is memory.used within 64"].held


def test_a_nvidia_smi_without_a_field_tells_the_others() -> None:
    def old(option: str) -> tuple[int, str]:
        for name in ("memory.reserved", "clocks_event_reasons.sync_boost"):
            if name in option:
                return 2, f'Field "{name}" is not a valid field to query.\n\n'
        return 0, ", ".join(["[N/A]"] * (option.count(",") + 1))

    (row,) = smi.cards(old)
    assert set(row.values()) == {None}
    assert "memory.reserved" not in row
    assert "memory.used" in row


@pytest.mark.parametrize(
    ("active", "words"),
    [((), ()), (("sw_power_cap",), ("power",)), (("hw_slowdown", "hw_thermal_slowdown"), ("hw thermal",))],
)
def test_reasons_are_in_gpudecks_words(active: tuple[str, ...], words: tuple[str, ...]) -> None:
    row = {f"clocks_event_reasons.{name}": "Active" if name in active else "Not Active" for name in smi.REASONS}
    assert smi.reasons(row) == words
    assert smi.reasons(dict.fromkeys(row)) is None


def test_a_machine_that_cannot_be_asked_is_refused_in_one_line(machine: Machine, box: Box) -> None:
    assert refusal(machine.box(), None) == ""
    assert [card["index"] for card in idle(machine.box(), "1")] == [1]
    assert "among CUDA_VISIBLE_DEVICES=7: GPU 0 (4 MiB, 0 processes), GPU 1" in refusal(machine.box(), "7")
    box.set(**{"gpu.0.used": 20000})
    assert [card["index"] for card in idle(machine.box(), None)] == [1]
    box.set(init=9)
    assert refusal(machine.box(), None) == "no NVIDIA card here to ask: no driver, no device"
    box.set(init=18)
    assert "mismatch" in refusal(machine.box(), None).lower()


ABOUT = {"card": "NVIDIA H100 80GB | HBM3/x", "driver": "560.35.03", "date": "2030-01-02", "torch": "2.9"}


def test_a_record_is_a_page_with_a_line_for_each_thing_that_was_asked(tmp_path: Path) -> None:
    record = Record(ABOUT)
    lines = record.subject("memory")
    lines.add("a|b", True, "[1]\nand *2*")
    lines.add("c", False, None)
    lines.impossible("d", "one card only")
    page = markdown(record)
    assert page.startswith("# NVIDIA H100 80GB \\| HBM3/x, driver 560.35.03\n\n2030-01-02: 1 held, 1 NOT HELD, 1 not")
    assert "| memory | a\\|b | \\[1\\] and \\*2\\* | held |" in page
    assert "| memory | c | None | **NOT HELD** |" in page
    assert "| memory | d | one card only | **not possible here** |" in page
    assert write(record, tmp_path / "seen").name == "560.35.03-NVIDIA-H100-80GB-HBM3-x.md" == file_name(ABOUT)
    assert tally(Record(ABOUT)) == "nothing was asked"
