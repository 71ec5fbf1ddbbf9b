"""How many epochs, steps or trials there are to be, as commands and printed settings say."""

from __future__ import annotations

import pytest

from tests.inside.logs import Totals


@pytest.mark.parametrize(
    ("command", "unit", "total"),
    [
        ("python train.py --epochs 40 --lr 0.1", "epoch", 40),
        ("python train.py --max_epochs=40", "epoch", 40),
        ("python main.py trainer.max_epochs=40", "epoch", 40),
        ("python run.py --num-train-epochs 3", "epoch", 3),
        ("python train.py --epochs 40 --warmup_epochs 5", "epoch", 40),
        ("python train.py --warmup-epochs 5", "epoch", None),
        ("python train.py --epochs 40 --max_epochs 50", "epoch", None),
        ("python train.py --save-every-epochs-of 3", "epoch", None),
        ("fairseq-train data --max-epoch 50 --save-interval 5", "epoch", 50),
        ("python train.py --epoch 3", "epoch", None),
        ("python train.py", "epoch", None),
        ("python train.py --epochs 0", "epoch", None),
        ("python train.py --max_iters=5000", "step", 5000),
        ("python train.py --num_env_steps 10M", "timestep", 10_000_000),
        ("python train.py --max_steps 1e4", "step", 10_000),
        ("python train.py --max_steps=-1", "step", None),
        ("python train.py SOLVER.MAX_ITER 90000 SOLVER.WARMUP_ITERS 1000", "step", 90_000),
        ("python ppo.py --total-timesteps 500_000 --n_steps 2048", "timestep", 500_000),
        ("python train.py scheduler.total_iters=5", "step", None),
        ("python train.py --eval_steps 100 --save_steps 100", "step", None),
        ("python tune.py --n_trials 100", "trial", 100),
    ],
)
def test_a_command_may_say_how_many_there_are(command: str, unit: str, total: float | None) -> None:
    assert Totals(command).of(unit) == total


@pytest.mark.parametrize(
    ("line", "unit", "total"),
    [
        ("  MAX_EPOCH: 200", "epoch", 200),
        ("  WARMUP_EPOCH: 1", "epoch", None),
        ("Namespace(arch='r18', epochs=90, start_epoch=0, warmup_epochs=5, max_iter=-1)", "epoch", 90),
        ("  Total optimization steps = 1,000", "step", 1000),
        ("  train_iters ..................................... 500000", "step", 500_000),
        ("  Num Epochs = 9,223,372,036,854,775,807", "epoch", None),
        ("in 5 epochs, 90 images", "epoch", None),
        ("train for 3 epochs: 12 images", "epoch", None),
        ("|    total_timesteps | 2048     |", "timestep", None),
        ("num_updates 100", "step", None),
        ("num_updates: 100", "step", None),
        ("total_updates: 1000", "step", 1000),
        ("max_epochs=90", "epoch", 90),
        ("+ python train.py --epochs 40", "epoch", 40),
    ],
)
def test_printed_settings_may_say_how_many_there_are(line: str, unit: str, total: float | None) -> None:
    totals = Totals()
    totals.read(line)
    assert totals.of(unit) == total


def test_the_command_goes_before_what_is_printed_and_the_loop_itself_before_both() -> None:
    totals = Totals("python train.py --epochs 40")
    totals.read("epochs: 10")
    assert totals.of("epoch") == 40
    totals.read("  Num Epochs = 3")
    assert totals.of("epoch") == 3


def test_a_name_that_has_had_several_values_is_a_counter() -> None:
    totals = Totals()
    totals.read("total_steps: 100")
    totals.read("total_steps: 200")
    assert totals.of("step") is None
