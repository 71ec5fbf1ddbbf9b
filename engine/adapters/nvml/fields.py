"""Asking a GPU field by field: what fails is a gap, and why it is one is remembered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .calls import Handle, NvmlError

NOT_SUPPORTED = "not supported"
NO_PERMISSION = "no permission"

T = TypeVar("T")


class Fields:
    """A field that fails is None, a gap, and takes no other field with it; one that is not supported is not asked
    again.

    `missing`: why a field is a gap, by name: "not supported", "no permission", else NVML's words. `answers` and
    `failures` count since `begin`; what is not supported or not permitted is no failure.
    """

    def __init__(self) -> None:
        self.missing: dict[str, str] = {}
        self.answers = 0
        self.failures: list[NvmlError] = []
        self._unsupported: set[str] = set()

    def begin(self) -> None:
        self.answers, self.failures = 0, []

    def ask(self, name: str, call: Callable[[Handle], T], handle: Handle) -> T | None:
        """None: a gap. Raises NvmlError where the whole GPU is gone."""
        if name in self._unsupported:
            return None
        try:
            value = call(handle)
        except NvmlError as failure:
            if failure.whole_gpu:
                raise
            self._fail(name, failure)
            return None
        self.answers += 1
        if name in self.missing:
            del self.missing[name]
        return value

    def _fail(self, name: str, failure: NvmlError) -> None:
        if failure.kind == "unsupported":
            self._unsupported.add(name)
            self.missing[name] = NOT_SUPPORTED
        elif failure.kind == "permission":
            self.missing[name] = NO_PERMISSION
        else:
            self.failures.append(failure)
            self.missing[name] = str(failure)
