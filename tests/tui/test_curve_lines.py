"""Metrics out of lines as programs print them."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.tui import KEPT, Curve, Curves, from_wire, guesses, to_wire


def fed(*lines: str) -> dict[str, Curve]:
    curves = Curves()
    for line in lines:
        curves.feed(line)
    return {curve.name: curve for curve in curves.curves()}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("epoch 3/100 train loss: 0.31 val_acc=0.9 lr 1e-4", [("train_loss", 0.31), ("val_acc", 0.9), ("lr", 1e-4)]),
        ("{'loss': '0.5', 'grad_norm': 1.2, 'epoch': 1.25}", [("loss", 0.5), ("grad_norm", 1.2)]),
        ("Epoch 3:  42%|█| 120/286 [00:12<00:17, 33it/s, train_loss=0.31]", [("train_loss", 0.31)]),
        ("Epoch [1/5] Loss: 2.3026, Accuracy: 45.3%", [("loss", 2.3026), ("accuracy", 45.3)]),
        ("1875/1875 - loss: 0.29 - val_loss: 0.1", [("loss", 0.29), ("val_loss", 0.1)]),
        ("saved to loss/3 file", []),
        ("no loss of 3 files", []),
        ("glossary 3", []),
        ("map2 7", []),
        ("error 404", []),
        ("test error: 0.31", [("test_error", 0.31)]),
        ("Error: loss=0.5 is too high", []),
        ("[rank0]: ValueError: got lr=12.0", []),
    ],
)  # fmt: skip
def test_usual_names_are_found_with_their_numbers(line: str, found: list[tuple[str, float]]) -> None:
    assert guesses(line) == found


def test_code_that_a_traceback_quotes_has_no_numbers() -> None:
    curves = fed("loss=2", '  File "train.py", line 12, in main', "    train(lr=0.1, loss=3)", "loss=4")
    assert {name: [y for _, y in curve.points] for name, curve in curves.items()} == {"loss": [2, 4]}


@pytest.mark.parametrize(
    ("lines", "x", "points"),
    [
        (("epoch 1/3 loss 0.5", "epoch 2/3 loss 0.4"), "epoch", ((1, 0.5), (2, 0.4))),
        (("Epoch 1/3", "step 50/100 loss=3", "Epoch 2/3", "step 25/100 loss=2"), "epoch", ((1.5, 3), (2.25, 2))),
        (("step 10: loss=0.5", "step 20: loss=0.4"), "step", ((10, 0.5), (20, 0.4))),
        (("step 10: loss=0.5", "step 20: loss=0.4", "step 10: loss=0.3"), "value", ((0, 0.5), (1, 0.4), (2, 0.3))),
        (("loss=3", "loss=2"), "value", ((0, 3), (1, 2))),
        (("::gpudeck progress=3/100 loss=3", "::gpudeck progress=4/100 loss=2"), "progress", ((3, 3), (4, 2))),
        (("step 1/9", "::gpudeck loss=3", "step 2/9", "::gpudeck loss=2"), "step", ((1, 3), (2, 2))),
        (("::gpudeck epoch=1", "::gpudeck loss=3", "::gpudeck epoch=2", "::gpudeck loss=2"), "epoch", ((1, 3), (2, 2))),
        (("::gpudeck progress=1/9", "::gpudeck loss=3", "::gpudeck progress=2/9", "::gpudeck loss=2"), "progress",
         ((1, 3), (2, 2))),
        (("::gpudeck loss=3", "::gpudeck loss=2"), "value", ((0, 3), (1, 2))),
    ],
    ids=[
        "the epoch of its line", "steps are parts of an epoch", "steps without a total", "counters that begin again",
        "no counter", "lines of ours", "ours behind a step", "ours behind an epoch of ours",
        "ours behind progress of ours", "ours without a counter",
    ],
)  # fmt: skip
def test_the_x_of_a_value_is_what_its_lines_count(lines: tuple[str, ...], x: str, points: object) -> None:
    found = fed(*lines)["loss"]
    assert (found.x, found.points) == (x, points)


def test_a_step_on_a_line_of_ours_is_where_its_values_belong() -> None:
    found = fed("::gpudeck step=300 wer=0.5")
    assert (found["wer"].x, found["wer"].points) == ("step", ((300, 0.5),))
    assert "step" not in found


def test_a_task_that_tells_metrics_itself_has_none_guessed() -> None:
    assert list(fed("loss=3 acc=0.5", "::gpudeck wer=0.4", "loss=2")) == ["wer"]


def test_of_many_values_the_extremes_and_the_last_one_stay() -> None:
    count = 20 * KEPT + 7
    values = {1234: 9.0, 4567: -9.0}
    found = fed(*(f"step {at}: loss={values.get(at, math.sin(at))}" for at in range(count)))["loss"]
    assert len(found.points) <= 2 * KEPT + 2
    assert found.count == count
    assert (found.low, found.high) == ((4567, -9.0), (1234, 9.0))
    assert {found.low, found.high} <= set(found.points)
    assert found.points[-1][0] == count - 1


def test_xs_of_a_thinned_curve_go_on_growing() -> None:
    found = fed(*(f"step {at}: loss={math.sin(at)}" for at in range(5 * KEPT)))["loss"]
    assert list(found.points) == sorted(found.points, key=lambda point: point[0])


def test_nan_is_the_last_value_and_never_the_least() -> None:
    found = fed("loss=1", "loss=nan")["loss"]
    assert math.isnan(found.last)
    assert found.low == (0, 1.0)


def test_a_metrics_file_that_tells_all_values_replaces_what_there_was() -> None:
    curves = Curves(named=True)
    curves.told("map", [1.0, 2.0])
    curves.told("map", [1.0, 2.0, 3.0])
    assert curves.curves()[0].points == ((0, 1), (1, 2), (2, 3))


def test_curves_survive_the_way_between_processes() -> None:
    curves = Curves()
    for line in ("loss=1", "loss=nan", "loss=inf", "loss=0.5"):
        curves.feed(line)
    assert repr(from_wire(to_wire(curves.curves()))) == repr(curves.curves())


@given(st.lists(st.text(alphabet="loss acc=:0123445679.e-nai'/ epoch[]%|step\u202e\x00", max_size=80), max_size=20))
def test_any_lines_give_curves_in_order(lines: list[str]) -> None:
    for curve in fed(*lines).values():
        assert curve.count >= 1
        assert [x for x, _ in curve.points] == sorted(x for x, _ in curve.points)


@given(
    values=st.lists(st.floats(allow_subnormal=False), min_size=1, max_size=1500),
    cuts=st.lists(st.integers(1, 1500), max_size=3),
)
def test_a_curve_that_is_kept_and_gone_on_with_stays_small_and_has_its_ends_and_extremes(
    values: list[float], cuts: list[int]
) -> None:
    curves = Curves(named=True)
    for at, value in enumerate(values):
        if at in cuts:
            curves = Curves(named=True, known=from_wire(json.loads(json.dumps(to_wire(curves.curves())))))
        curves.add("loss", value, ("step", at), at / 10)
    (found,) = curves.curves()
    finite = [value for value in values if math.isfinite(value)]
    assert len(found.points) <= 512
    assert found.count == len(values)
    assert (repr(found.points[0][1]), repr(found.points[-1][1])) == (repr(values[0]), repr(values[-1]))
    assert {min(finite), max(finite)} <= {value for _, value in found.points} if finite else found.low is None
    assert [x for x, _ in found.points] == sorted({x for x, _ in found.points})
    assert len(found.at_s) == len(found.points)
    assert list(found.at_s) == sorted(found.at_s)
    assert all(repr(values[int(x)]) == repr(value) for x, value in found.points)
