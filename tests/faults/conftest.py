from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.lives import Zygote


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()
