"""Models and their copies in the other processes: `wrap()`, and what torch's wrapper does not say or does too much."""

from __future__ import annotations

import weakref
from typing import Any, overload

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from .session import Context, current, warn


class _Guard:
    """Notices a training forward that goes past the wrapper. Not a closure, so that the model can still be pickled."""

    def __init__(self, module: nn.Module) -> None:
        self.inside = False
        self._owner = id(module)
        self._said = False

    def __call__(self, module: nn.Module, _: Any) -> None:
        if self.inside or self._said or not (module.training and torch.is_grad_enabled()):
            return
        if id(module) == self._owner:  # a copy, for averaged weights, is nobody's replica
            self._said = True
            warn(
                "the model inside of the wrapper was called in training (.module): its gradients are not averaged, "
                "and the processes train apart; call the wrapped model"
            )


class Replica(DistributedDataParallel):
    """A model whose gradients are averaged over all processes.

    In evaluation and without gradients it waits for nobody: torch would send rank 0's buffers at the first forward, and
    hang where a process has no batch to evaluate.
    """

    def __init__(self, module: nn.Module, **options: Any) -> None:
        super().__init__(module, **options)
        self._guard = _Guard(module)
        self.shares_buffers = options.get("broadcast_buffers", True) and options.get("forward_sync_buffers", True)
        self.buffers_differ = False
        module.register_forward_pre_hook(self._guard)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        self._guard.inside = True
        self.buffers_differ |= self.training
        before = self.require_forward_param_sync
        try:
            return super().forward(*inputs, **named)
        finally:
            self._guard.inside = False
            if not torch.is_grad_enabled():  # torch forgets that the next training step has buffers to send
                self.require_forward_param_sync = before

    def will_sync_module_buffers(self) -> bool:
        return self.training and torch.is_grad_enabled() and super().will_sync_module_buffers()


_replicas: list[weakref.ref[Replica]] = []
"""In the order of wrapping, which is the same in all processes."""


@overload
def wrap(model: nn.Module, /, **options: Any) -> nn.Module: ...
@overload
def wrap(first: nn.Module, second: nn.Module, /, *more: nn.Module, **options: Any) -> tuple[nn.Module, ...]: ...
def wrap(*models: nn.Module, **options: Any) -> nn.Module | tuple[nn.Module, ...]:
    """Move models to this process's device; with several processes, average their gradients (DDP).

    One model comes back as one, several as a tuple in their order. Make optimizers afterwards. A model without
    parameters to train needs no wrapper and gets none. *options* go to DistributedDataParallel. Alone: only moved.
    """
    context = current()
    wrapped = tuple(_wrapped(model, context, options) for model in models)
    return wrapped[0] if len(wrapped) == 1 else wrapped


def _wrapped(model: nn.Module, context: Context, options: dict[str, Any]) -> nn.Module:
    model = model.to(context.device)
    if context.strategy == "single" or not any(each.requires_grad for each in model.parameters()):
        return model
    if context.strategy == "dp":
        return DataParallel(model)
    given = {"find_unused_parameters": context.find_unused_parameters, **options}
    if context.device.type == "cuda":
        given.setdefault("device_ids", [context.device.index])
    replica = Replica(model, **given)
    _replicas.append(weakref.ref(replica))
    return replica


def unwrap(model: nn.Module) -> nn.Module:
    """The user's own model, out of whatever DDP, DataParallel and torch.compile have put around it."""
    while True:
        if isinstance(model, DistributedDataParallel | DataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            model = inner
        else:
            return model


def share_buffers() -> None:
    """Give all processes rank 0's buffers (running statistics) of models that were trained since the last time.

    For the end of an epoch, which all processes reach together: evaluation and checkpoint then are of the same model.
    """
    for replica in [found for each in _replicas if (found := each()) is not None]:
        if replica.buffers_differ and replica.shares_buffers:
            replica.buffers_differ = False
            for buffer in replica.module.buffers():
                whole = buffer.contiguous()
                dist.broadcast(whole, 0)
                if whole is not buffer:
                    buffer.copy_(whole)
