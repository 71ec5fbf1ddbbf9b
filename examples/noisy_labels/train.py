"""Train a small network on handwritten digits whose training labels are partly wrong, with two losses.

Each seed trains twice: with cross-entropy, and with the generalized cross-entropy of Zhang & Sabuncu, "Generalized
Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels" (NeurIPS 2018, arXiv:1805.07836). The test
labels stay clean. Writes `metrics.json` into --out when all is done; until then `checkpoint.pt` there lets the next
call go on where this one was stopped, with the same numbers at the end.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

CLASSES = 10
TEST_IMAGES = 500
BATCH = 128
CHECKPOINT_EVERY = 5  # epochs
GCE_Q = 0.7  # the paper's choice: 0 would be cross-entropy, 1 the mean absolute error

Labels = np.ndarray[Any, np.dtype[np.int64]]


class Config(NamedTuple):
    """What the result depends on."""

    noise_type: str
    noise_rate: float
    seeds: int
    epochs: int


class Data(NamedTuple):
    """Images are (n, 64) float32 in 0..1, labels (n,) int64."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def add_noise(labels: Labels, noise_type: str, rate: float, rng: np.random.Generator) -> Labels:
    """A copy of *labels* of which exactly round(rate * n) are wrong.

    "sym": any other class, all equally likely. "asym": the next class (0 -> 1, …, 9 -> 0), the pair flip of Han et
    al., "Co-teaching" (NeurIPS 2018); beyond a rate of 0.5 most labels of every class then name the same wrong class.
    """
    flipped = rng.permutation(len(labels))[: round(rate * len(labels))]
    shift = rng.integers(1, CLASSES, size=len(flipped)) if noise_type == "sym" else 1
    noisy = labels.copy()
    noisy[flipped] = (labels[flipped] + shift) % CLASSES
    return noisy


def gce_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean of (1 - p^q) / q, where p is the probability given to the label: at most 1/q, so no label can dominate."""
    probability = functional.softmax(logits, dim=1).gather(1, labels[:, None]).squeeze(1)
    return ((1 - probability.clamp_min(1e-7) ** GCE_Q) / GCE_Q).mean()


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"ce": functional.cross_entropy, "gce": gce_loss}


def load_data(config: Config, seed: int, device: torch.device) -> Data:
    """The split is the same for every run; only which training labels are wrong depends on *seed*."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = (images[order] / 16).astype(np.float32), labels[order].astype(np.int64)
    noisy = add_noise(labels[TEST_IMAGES:], config.noise_type, config.noise_rate, np.random.default_rng(seed))
    arrays = images[TEST_IMAGES:], noisy, images[:TEST_IMAGES], labels[:TEST_IMAGES]
    return Data(*(torch.from_numpy(array).to(device) for array in arrays))


def new_model(seed: int, device: torch.device) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    layers = nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, CLASSES)
    model = nn.Sequential(*layers).to(device)
    return model, torch.optim.Adam(model.parameters(), lr=1e-3)


def train_epoch(
    model: nn.Module, optimizer: torch.optim.Optimizer, data: Data, loss_name: str, shuffle_seed: int
) -> float:
    """One pass over the training images; returns the mean loss."""
    shuffle = torch.Generator().manual_seed(shuffle_seed)
    batches = torch.randperm(len(data.train_labels), generator=shuffle).to(data.train_labels.device).split(BATCH)
    total = torch.zeros((), device=data.train_labels.device)
    for batch in batches:
        loss = LOSSES[loss_name](model(data.train_images[batch]), data.train_labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(batch)
    return float(total) / len(data.train_labels)


@torch.no_grad()
def accuracy(model: nn.Module, data: Data) -> float:
    return int((model(data.test_images).argmax(1) == data.test_labels).sum()) / len(data.test_labels)


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Whoever reads *path*, also after a kill or a power cut, finds the old content or the new one, never a half."""
    temporary = path.with_name(path.name + ".tmp")
    write(temporary)
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)


def load_checkpoint(path: Path, config: Config, device: torch.device) -> dict[str, Any]:
    """What an earlier call with the same *config* left, else the state of a new start."""
    if path.exists():
        state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
        if state["config"] == config._asdict():
            print(f"going on after epoch {state['done']}", flush=True)
            return state
    return {"config": config._asdict(), "done": 0, "results": {name: [] for name in LOSSES}}


def train_all(config: Config, out: Path, device: torch.device) -> dict[str, list[float]]:
    """Train with every seed and loss, one after the other; returns the final test accuracies by loss.

    Epochs are counted over all of these trainings, so that the progress shown never goes back.
    """
    seeds, epochs = range(config.seeds), range(config.epochs)
    plan = [(seed, loss_name, epoch) for seed in seeds for loss_name in LOSSES for epoch in epochs]
    state = load_checkpoint(out / "checkpoint.pt", config, device)
    data = model = optimizer = None
    for seed, loss_name, epoch in plan[state["done"] :]:
        if data is None or model is None or optimizer is None or epoch == 0:
            data = load_data(config, seed, device)
            model, optimizer = new_model(seed, device)
            if epoch > 0:
                model.load_state_dict(state["model"])
                optimizer.load_state_dict(state["optimizer"])
        loss = train_epoch(model, optimizer, data, loss_name, shuffle_seed=seed * config.epochs + epoch)
        score = accuracy(model, data)
        state["done"] += 1
        if epoch == epochs[-1]:
            state["results"][loss_name].append(score)
        print(
            f"epoch [{state['done']}/{len(plan)}] loss {loss:.3f} acc {score:.3f} {loss_name} seed {seed}", flush=True
        )
        if state["done"] % CHECKPOINT_EVERY == 0:
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            replace_file(out / "checkpoint.pt", partial(torch.save, state))
    return state["results"]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train on digits with noisy labels, with two losses.")
    parser.add_argument("--noise-type", choices=["sym", "asym"], required=True)
    parser.add_argument("--noise-rate", type=float, required=True, help="share of wrong training labels, 0 to 1")
    parser.add_argument("--out", type=Path, required=True, help="folder for metrics.json and the checkpoint")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=40, help="per seed and loss")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    config = Config(args.noise_type, args.noise_rate, args.seeds, args.epochs)
    args.out.mkdir(parents=True, exist_ok=True)
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # the network is too small for more
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(f"training on {device}", flush=True)
    metrics = config._asdict() | {"accuracy": train_all(config, args.out, device)}
    text = json.dumps(metrics, indent=2) + "\n"
    replace_file(args.out / "metrics.json", lambda path: path.write_text(text))
    (args.out / "checkpoint.pt").unlink(missing_ok=True)  # done: the next call trains anew


if __name__ == "__main__":
    main()
