"""Five ways to classify rows of numbers. Each fits a model, which is a table of tensors, and scores rows with it.

Rows are (n, features) float32, labels (n,) int64, scores (n, classes): the highest one is the class.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

Model = dict[str, Tensor]
NEIGHBOURS = 5
KERNEL_FEATURES = 1024


class Options(NamedTuple):
    epochs: int
    batch: int
    lr: float


def descend(network: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor, options: Options) -> None:
    """Cross-entropy by mini-batches; a line for each epoch."""
    for epoch in range(1, options.epochs + 1):
        total = torch.zeros((), device=x.device)
        for rows in torch.randperm(len(y), device=x.device).split(options.batch):
            loss = functional.cross_entropy(network(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(rows)
        print(f"epoch {epoch}/{options.epochs} loss={float(total) / len(y):.4f}", flush=True)


def mlp_network(features: int, hidden: int, classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def fit_mlp(x: Tensor, y: Tensor, classes: int, options: Options) -> Model:
    """A hidden layer, Adam."""
    network = mlp_network(x.shape[1], 128, classes).to(x.device)
    descend(network, torch.optim.Adam(network.parameters(), options.lr), x, y, options)
    return network.state_dict()


def score_mlp(model: Model, x: Tensor) -> Tensor:
    (hidden, features), classes = model["0.weight"].shape, len(model["2.bias"])
    network = mlp_network(features, hidden, classes).to(x.device)
    network.load_state_dict(model)
    return network(x)


def fit_softmax(x: Tensor, y: Tensor, classes: int, options: Options) -> Model:
    """Linear, SGD with momentum and weight decay."""
    network = nn.Linear(x.shape[1], classes).to(x.device)
    optimizer = torch.optim.SGD(network.parameters(), options.lr, momentum=0.9, weight_decay=1e-3)
    descend(network, optimizer, x, y, options)
    return network.state_dict()


def score_softmax(model: Model, x: Tensor) -> Tensor:
    return functional.linear(x, model["weight"], model["bias"])


def fit_kernel(x: Tensor, y: Tensor, classes: int, options: Options) -> Model:
    """Ridge regression on random Fourier features of a Gaussian kernel (Rahimi & Recht, NIPS 2007): one linear system,
    summed up batch by batch."""
    features = x.shape[1]
    model = {
        "directions": torch.randn(features, KERNEL_FEATURES, device=x.device) / math.sqrt(2 * features),
        "offsets": 2 * math.pi * torch.rand(KERNEL_FEATURES, device=x.device),
    }
    gram = torch.eye(KERNEL_FEATURES, device=x.device)
    right = torch.zeros(KERNEL_FEATURES, classes, device=x.device)
    for rows, labels in zip(x.split(options.batch), y.split(options.batch), strict=True):
        waves = kernel_features(model, rows)
        gram += waves.T @ waves
        right += waves.T @ functional.one_hot(labels, classes).float()
    return model | {"weights": torch.linalg.solve(gram, right)}


def kernel_features(model: Model, x: Tensor) -> Tensor:
    return torch.cos(x @ model["directions"] + model["offsets"]) * math.sqrt(2 / KERNEL_FEATURES)


def score_kernel(model: Model, x: Tensor) -> Tensor:
    return kernel_features(model, x) @ model["weights"]


def fit_lda(x: Tensor, y: Tensor, classes: int, _options: Options) -> Model:
    """Linear discriminant analysis: a Gaussian for each class, one covariance for all; nothing is iterated."""
    means = torch.stack([x[y == label].mean(0) for label in range(classes)])
    inner = x - means[y]
    covariance = inner.T @ inner / len(y) + 0.1 * torch.eye(x.shape[1], device=x.device)
    weights = torch.linalg.solve(covariance, means.T)
    prior = torch.bincount(y, minlength=classes).float().div(len(y)).log()
    return {"weights": weights, "bias": prior - (means * weights.T).sum(1) / 2}


def score_lda(model: Model, x: Tensor) -> Tensor:
    return x @ model["weights"] + model["bias"]


def fit_knn(x: Tensor, y: Tensor, classes: int, _options: Options) -> Model:
    """The nearest neighbours vote: the rows are the model."""
    return {"x": x, "y": functional.one_hot(y, classes).float()}


def score_knn(model: Model, x: Tensor) -> Tensor:
    nearest = torch.cdist(x, model["x"]).topk(NEIGHBOURS, largest=False).indices
    return model["y"][nearest].sum(1)


class Algorithm(NamedTuple):
    fit: Callable[[Tensor, Tensor, int, Options], Model]
    score: Callable[[Model, Tensor], Tensor]


ALGORITHMS = {
    "mlp": Algorithm(fit_mlp, score_mlp),
    "softmax": Algorithm(fit_softmax, score_softmax),
    "kernel": Algorithm(fit_kernel, score_kernel),
    "lda": Algorithm(fit_lda, score_lda),
    "knn": Algorithm(fit_knn, score_knn),
}


@torch.no_grad()
def accuracy(algorithm: str, model: Model, x: Tensor, y: Tensor, batch: int = 256) -> float:
    """Share of the rows whose class is found, 0 to 1."""
    parts = zip(x.split(batch), y.split(batch), strict=True)
    right = sum(int((ALGORITHMS[algorithm].score(model, rows).argmax(1) == labels).sum()) for rows, labels in parts)
    return right / len(y)
