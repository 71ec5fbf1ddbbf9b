"""Facts as rows: every kind, old shapes, text that is no Unicode."""

from __future__ import annotations

import re
from typing import Any
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudeck.engine.core.events import (
    FACTS,
    PLAIN,
    AttemptEnded,
    AttemptRunning,
    AttemptStarting,
    DeckPaused,
    Fact,
    Halted,
    Outcome,
    PriorityChanged,
    TaskCached,
    TaskCancelled,
    TaskHeld,
    TaskRetried,
)
from tests.fakes.any_facts import any_fact, facts_of
from tests.inside.adapters import FactCodec, Row, UnknownFactError, place

CODEC = FactCodec()


def rows_of(facts: list[Fact], codec: FactCodec = CODEC) -> list[Row]:
    flat: list[Any] = place(codec.encode(facts), 0)
    columns = [flat[at : at + 5] for at in range(0, len(flat), 5)]
    return [(seq, kind.encode(), version, body, crc) for seq, kind, version, body, crc in columns]


def read(rows: list[Row], codec: FactCodec = CODEC) -> tuple[list[Fact], str]:
    facts: list[Fact] = []
    return facts, codec.decode(rows, facts)


@pytest.mark.parametrize("kind", FACTS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_every_kind_of_fact_comes_back_equal(kind: type[Fact], data: st.DataObject):
    fact = data.draw(facts_of(kind))
    assert read(rows_of([fact])) == ([fact], "")


@given(st.lists(any_fact, max_size=8))
def test_a_mixture_of_facts_comes_back_in_order(facts: list[Fact]):
    assert read(rows_of(facts)) == (facts, "")


@given(fact=any_fact, data=st.data())
def test_a_flipped_bit_in_a_body_is_found(fact: Fact, data: st.DataObject):
    ((seq, kind, version, body, crc),) = rows_of([fact])
    at = data.draw(st.integers(0, len(body) * 8 - 1))
    flipped = bytearray(body)
    flipped[at // 8] ^= 1 << at % 8
    assert read([(seq, kind, version, bytes(flipped), crc)]) == ([], "fact 1 is damaged")


def test_undecodable_file_names_do_not_stop_the_journal():
    fact = AttemptEnded("t", 1, Outcome("exit", 1, None, "no such file: caf\udce9"), 1.0, 2.0, 3.0, "failed")
    (kept,), damage = read(rows_of([fact]))
    assert (kept.outcome.detail, damage) == ("no such file: caf\ufffd", "")  # pyright: ignore


def test_a_kind_of_another_version_is_refused_and_not_called_damage():
    stranger = FactCodec((TaskHeld,))
    with pytest.raises(UnknownFactError, match=re.escape("fact 1 (Halted, version 1) is unknown")):
        read(rows_of([Halted("t", 1.0)]), stranger)


def test_an_old_shape_is_lifted_step_by_step_to_the_present_one():
    def renamed(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "held": fields["held"]}

    def negated(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "held": not fields["held"]}

    newer = FactCodec(lifts={("TaskHeld", 1): renamed, ("TaskHeld", 2): negated})
    assert read(rows_of([TaskHeld("a", True)]), newer) == ([TaskHeld("a", False)], "")


def test_a_lifted_kind_is_written_at_its_newest_version():
    newer = FactCodec(lifts={("TaskHeld", 1): lambda fields: fields})
    ((_, _, version, _, _),) = rows_of([TaskHeld("a", True)], newer)
    assert version == 2


_STARTING: dict[str, Any] = {
    "task": "a", "attempt": 1, "token": "t", "fingerprint": "f", "gpus": ["GPU-0"], "cpu_slots": 0, "reserved_mib": 0,
    "at": 1.0, "wall": 2.0, "rung": 0, "alone": False,
}  # fmt: skip
OLD: list[tuple[dict[str, Any], Fact]] = [
    (_STARTING, AttemptStarting("a", 1, "t", "f", ("GPU-0",), 0, 0, 1.0, 2.0, outputs=(), terms=0)),
    ({"task": "a", "attempt": 1, "pid": 7, "start_ticks": 8}, AttemptRunning("a", 1, 7, 8, nodes=(), at=None)),
    ({"task": "a", "at": 1.0}, TaskRetried("a", 1.0, PLAIN, "")),
    ({"task": "a", "at": 1.0}, TaskCancelled("a", 1.0, "")),
    ({"task": "a", "held": True}, TaskHeld("a", True, "")),
    ({"task": "a", "priority": 3}, PriorityChanged("a", 3, "")),
    ({"paused": True, "why": "paused"}, DeckPaused(True, "paused")),
    ({"task": "a", "fingerprint": "f", "why": "journal", "at": 1.0}, TaskCached("a", "f", "journal", 1.0, wall=0.0)),
]
"""What journals of before retries had options hold, and what it means."""


@pytest.mark.parametrize(("fields", "fact"), OLD, ids=lambda value: type(value).__name__)
def test_a_fact_of_before_retries_had_options_is_read(fields: dict[str, Any], fact: Fact):
    ((seq, kind, version, _, _),) = rows_of([fact])
    body = msgspec.msgpack.encode(fields)
    crc = crc32(body, (crc32(b"%s 1" % kind) + seq) & 0xFFFFFFFF)
    assert version == 1
    assert read([(seq, kind, 1, body, crc)]) == ([fact], "")
