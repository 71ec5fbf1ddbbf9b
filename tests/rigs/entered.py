"""Tests that are coroutines and are given a rig."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

_Rig = TypeVar("_Rig")
_Test = Callable[..., Coroutine[Any, Any, None]]


def entered(enter: Callable[[Path], AbstractAsyncContextManager[_Rig]]) -> Callable[[_Test], _Test]:
    """Make a test of a coroutine that takes what *enter* makes in the test's folder, and whatever else pytest gives."""

    def decorate(body: _Test) -> _Test:
        _, *more = inspect.signature(body).parameters.values()

        async def test(tmp_path: Path, **given: Any) -> None:
            async with enter(tmp_path) as rig:
                await body(rig, **given)

        here = inspect.Parameter("tmp_path", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        test.__name__, test.__doc__, test.__module__ = body.__name__, body.__doc__, body.__module__
        test.__signature__ = inspect.Signature([here, *more])  # type: ignore[attr-defined]
        return test

    return decorate
