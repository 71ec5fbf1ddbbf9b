"""The default deck's scripts: noise, loss, checkpoints, and what the summary says."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.torchrun

FOLDER = Path(__file__).parents[2] / "examples" / "noisy_labels"
CPU = torch.device("cpu")


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"noisy_labels_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def train() -> ModuleType:
    torch.set_num_threads(1)
    return load_script("train")


@pytest.fixture(scope="module")
def gather() -> ModuleType:
    return load_script("gather")


class CutShortError(Exception):
    """Raised in the middle of a write."""


def clean_labels(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int64) % 10


@pytest.mark.parametrize("noise_type", ["sym", "asym"])
@pytest.mark.parametrize("rate", [0.0, 0.125, 0.75, 1.0])
def test_noise_makes_exactly_the_given_share_of_the_labels_wrong(
    train: ModuleType, noise_type: str, rate: float
) -> None:
    labels = clean_labels(800)
    noisy = train.add_noise(labels, noise_type, rate, np.random.default_rng(1))
    assert (noisy != labels).sum() == rate * 800


def test_noise_leaves_the_labels_that_it_is_given_alone(train: ModuleType) -> None:
    labels = clean_labels(100)
    train.add_noise(labels, "sym", 0.5, np.random.default_rng(1))
    assert (labels == clean_labels(100)).all()


def test_symmetric_noise_reaches_every_other_class(train: ModuleType) -> None:
    noisy = train.add_noise(np.zeros(1000, dtype=np.int64), "sym", 0.9, np.random.default_rng(1))
    assert set(noisy.tolist()) == set(range(10))


def test_asymmetric_noise_names_the_next_class_and_nine_becomes_zero(train: ModuleType) -> None:
    noisy = train.add_noise(clean_labels(10), "asym", 1.0, np.random.default_rng(1))
    assert noisy.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]


def test_the_same_seed_makes_the_same_labels_wrong(train: ModuleType) -> None:
    first, second = (train.add_noise(clean_labels(100), "sym", 0.5, np.random.default_rng(7)) for _ in range(2))
    assert (first == second).all()


def test_generalized_cross_entropy_follows_its_formula(train: ModuleType) -> None:
    probabilities = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])
    expected = ((1 - 0.5**0.7) / 0.7 + (1 - 0.1**0.7) / 0.7) / 2
    assert float(train.gce_loss(probabilities.log(), torch.tensor([0, 1]))) == pytest.approx(expected, rel=1e-5)


def test_a_hopeless_label_pulls_less_under_the_robust_loss_than_under_cross_entropy(train: ModuleType) -> None:
    def pull(loss_name: str) -> float:
        logits = torch.tensor([[10.0, 0.0]], requires_grad=True)
        train.LOSSES[loss_name](logits, torch.tensor([1])).backward()
        assert logits.grad is not None
        return float(logits.grad.abs().sum())

    assert pull("gce") < 0.01 * pull("ce")


def test_the_robust_loss_stays_finite_where_the_probability_is_zero(train: ModuleType) -> None:
    logits = torch.tensor([[500.0, -500.0]], requires_grad=True)
    train.gce_loss(logits, torch.tensor([1])).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


def test_test_labels_stay_clean_and_the_split_is_the_same_for_every_seed(train: ModuleType) -> None:
    noisy = train.load_data(train.Config("sym", 0.75, 1, 1), 1, CPU)
    other = train.load_data(train.Config("asym", 0.0, 1, 1), 2, CPU)
    assert torch.equal(noisy.test_labels, other.test_labels)
    assert torch.equal(noisy.train_images, other.train_images)
    assert (noisy.train_labels != other.train_labels).float().mean() == pytest.approx(0.75, abs=0.001)


def test_a_write_that_is_cut_short_leaves_the_old_file_whole(train: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    path.write_text("old")

    def half_a_write(temporary: Path) -> None:
        temporary.write_text("ne")
        raise CutShortError

    with pytest.raises(CutShortError):
        train.replace_file(path, half_a_write)
    assert path.read_text() == "old"


def test_progress_counts_up_over_all_trainings(
    train: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train.train_all(train.Config("sym", 0.25, 2, 3), tmp_path, CPU)
    counts = [line.split("]")[0] for line in capsys.readouterr().out.splitlines()]
    assert counts == [f"epoch [{done}/12" for done in range(1, 13)]


def test_clean_digits_are_learned_within_a_few_epochs(train: ModuleType, tmp_path: Path) -> None:
    results = train.train_all(train.Config("sym", 0.0, 1, 6), tmp_path, CPU)
    assert min(results["ce"] + results["gce"]) > 0.8


def test_a_killed_training_goes_on_and_ends_with_the_numbers_of_an_unstopped_one(
    train: ModuleType, tmp_path: Path
) -> None:
    arguments = ["--noise-type", "sym", "--noise-rate", "0.5", "--seeds", "1", "--epochs", "40", "--out", str(tmp_path)]
    command = [sys.executable, str(FOLDER / "train.py"), *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as killed:
        assert killed.stdout is not None
        next(line for line in killed.stdout if line.startswith("epoch [47/80]"))
        killed.kill()
    resumed = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    assert "epoch [45/80]" not in resumed.stdout
    (tmp_path / "unstopped").mkdir()
    unstopped = train.train_all(train.Config("sym", 0.5, 1, 40), tmp_path / "unstopped", CPU)
    assert json.loads((tmp_path / "metrics.json").read_text())["accuracy"] == unstopped


def test_a_checkpoint_of_another_configuration_is_not_used(train: ModuleType, tmp_path: Path) -> None:
    train.train_all(train.Config("sym", 0.5, 1, 5), tmp_path, CPU)
    state = train.load_checkpoint(tmp_path / "checkpoint.pt", train.Config("sym", 0.25, 1, 5), CPU)
    assert state["done"] == 0


def test_a_finished_run_leaves_its_metrics_and_no_checkpoint(
    train: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "asym-0.50"
    arguments = f"--noise-type asym --noise-rate 0.50 --seeds 1 --epochs 5 --out {out}"
    monkeypatch.setattr(sys, "argv", ["train.py", *arguments.split()])
    train.main()
    assert [path.name for path in out.iterdir()] == ["metrics.json"]
    assert json.loads((out / "metrics.json").read_text())["noise_rate"] == 0.5


def write_metrics(folder: Path, noise_type: str, rate: float, ce: float, gce: float) -> None:
    run = folder / f"{noise_type}-{rate}"
    run.mkdir(parents=True)
    metrics = {"noise_type": noise_type, "noise_rate": rate, "accuracy": {"ce": [ce, ce], "gce": [gce, gce]}}
    (run / "metrics.json").write_text(json.dumps(metrics))


def test_the_summary_lists_runs_by_noise_and_says_what_noise_costs_each_loss(
    gather: ModuleType, tmp_path: Path
) -> None:
    write_metrics(tmp_path, "sym", 0.75, ce=0.5, gce=0.7)
    write_metrics(tmp_path, "sym", 0.125, ce=0.9, gce=0.95)
    text = gather.summary(gather.read_runs(tmp_path))
    assert text.index("| sym | 12.5% | 90.0 | 95.0 | +5.0 |") < text.index("| sym | 75.0% | 50.0 | 70.0 | +20.0 |")
    assert "cross-entropy loses 40.0 points, the robust loss 25.0." in text


def test_gathering_writes_a_summary_and_a_png(
    gather: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_metrics(tmp_path / "runs", "asym", 0.5, ce=0.5, gce=0.5)
    arguments = f"--runs {tmp_path}/runs --out {tmp_path}/out"
    monkeypatch.setattr(sys, "argv", ["gather.py", *arguments.split()])
    gather.main()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["accuracy.png", "summary.md"]
    assert (tmp_path / "out" / "accuracy.png").read_bytes().startswith(b"\x89PNG")


def test_gathering_nothing_is_an_error_that_says_what_to_do(
    gather: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["gather.py", "--runs", str(tmp_path), "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"run train\.py first"):
        gather.main()
