"""Lets these tests import tests/fakes."""

import sys
from pathlib import Path

FAKES = str(Path(__file__).resolve().parent.parent / "fakes")
if FAKES not in sys.path:
    sys.path.insert(0, FAKES)
