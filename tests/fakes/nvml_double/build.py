"""Building the double, and putting it where pynvml finds it."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pynvml

from .box import VARIABLE, Box
from .seam import Seam

SONAME = "libnvidia-ml.so.1"
_SOURCE = Path(__file__).with_name("nvml.c")

Kind = Literal["library", "seam"]
KINDS: tuple[Kind, ...] = ("library", "seam") if shutil.which("cc") else ("seam",)
"""What can be used on this host."""


def build(folder: Path) -> Path:
    """Compile the library into *folder*, for LD_LIBRARY_PATH; returns its path."""
    library = folder / SONAME
    options = ["-std=c11", "-D_DEFAULT_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run(["cc", *options, f"-Wl,-soname,{SONAME}", "-o", str(library), str(_SOURCE)], check=True)
    return library


@functools.cache
def library_folder() -> Path:
    """A folder with the library, made once per process and removed at its end."""
    folder = Path(tempfile.mkdtemp(prefix="nvml-double-"))
    weakref.finalize(build, shutil.rmtree, folder, ignore_errors=True)
    build(folder)
    return folder


def outside(box: Box) -> tuple[str, dict[str, str]]:
    """Code that a Python program has to begin with, and its environment, to see the double in a process of its own."""
    environment = {**os.environ, VARIABLE: str(box.path)}
    if "library" in KINDS:
        return "", {**environment, "LD_LIBRARY_PATH": str(library_folder())}
    root = str(_SOURCE.parents[3])
    imports = f"import sys; sys.path.append({root!r}); import pynvml; from tests.fakes.nvml_double.seam import Seam\n"
    return f"{imports}pynvml.nvmlLib = Seam({str(box.path)!r})\n", environment


@contextmanager
def double(kind: Kind, folder: Path, cards: int = 0) -> Iterator[Box]:
    """pynvml in this process sees *cards* GPUs of the double, whose state lies in *folder*."""
    box = Box(folder / "box.txt", cards)
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(box.path)
    if kind == "library":
        # pynvml loads it by its SONAME, which the loader then finds among the loaded ones.
        ctypes.CDLL(str(library_folder() / SONAME))
    others = set(threading.enumerate())
    try:
        with _installed(Seam(box.path) if kind == "seam" else None):
            yield box
            box.release()
            _await_samplers(others)
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before


def _await_samplers(others: set[threading.Thread]) -> None:
    """A thread that is still inside a call would go on in the next test's box, and read the environment of the process
    while it is changed, which crashes it."""
    for thread in set(threading.enumerate()) - others:
        if thread.name in ("gpu-sampler", "gpudeck-within"):
            thread.join(timeout=10.0)


@contextmanager
def _installed(library: Any) -> Iterator[None]:
    cache: dict[str, Any] = pynvml._nvmlGetFunctionPointer_cache  # pyright: ignore[reportPrivateUsage]
    before = pynvml.nvmlLib
    cache.clear()
    pynvml.nvmlLib = library
    try:
        yield
    finally:
        cache.clear()
        pynvml.nvmlLib = before
