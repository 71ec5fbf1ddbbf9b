"""Which Python a task runs with."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from .problems import BadValueError


class Python(NamedTuple):
    """An interpreter and the variable that makes its environment the active one."""

    path: str
    """Absolute; not resolved, since a link inside an environment is what makes it that environment."""
    env: tuple[tuple[str, str], ...] = ()


def default_python(folder: str, environ: Mapping[str, str]) -> Python:
    """`.venv` in *folder*, else the active virtual environment, else a conda one that is not base, else our own."""
    conda = environ.get("CONDA_PREFIX", "") if environ.get("CONDA_DEFAULT_ENV") != "base" else ""
    candidates = (
        ("VIRTUAL_ENV", os.path.join(folder, ".venv")),
        ("VIRTUAL_ENV", environ.get("VIRTUAL_ENV", "")),
        ("CONDA_PREFIX", conda),
    )
    for variable, prefix in candidates:
        if prefix and os.path.isfile(_inside(prefix)):
            return Python(_inside(prefix), ((variable, prefix),))
    return Python(sys.executable)


def named_python(name: str, folder: str, environ: Mapping[str, str]) -> Python:
    """What `python = "…"` names: "conda:NAME", an environment's folder, an interpreter, or a command on PATH."""
    if name.startswith("conda:"):
        return _conda(name.removeprefix("conda:"), environ)
    path = os.path.join(folder, os.path.expanduser(name))
    if os.path.isdir(path):
        variable = "CONDA_PREFIX" if os.path.isdir(os.path.join(path, "conda-meta")) else "VIRTUAL_ENV"
        if not os.path.isfile(_inside(path)):
            raise BadValueError(f"names the folder {path}, which has no bin/python")
        return Python(_inside(path), ((variable, path),))
    if os.path.isfile(path):
        return _of_interpreter(path)
    found = shutil.which(name, path=environ.get("PATH")) if "/" not in name else None
    if found is None:
        raise BadValueError(f"names {path}, which does not exist")
    return _of_interpreter(os.path.abspath(found))


def _inside(prefix: str) -> str:
    return os.path.join(prefix, "bin", "python")


def _of_interpreter(path: str) -> Python:
    prefix = os.path.dirname(os.path.dirname(path))
    if os.path.isfile(os.path.join(prefix, "pyvenv.cfg")):
        return Python(path, (("VIRTUAL_ENV", prefix),))
    if os.path.isdir(os.path.join(prefix, "conda-meta")):
        return Python(path, (("CONDA_PREFIX", prefix),))
    return Python(path)


def _conda(name: str, environ: Mapping[str, str]) -> Python:
    for prefix in _conda_prefixes(name, environ):
        if os.path.isfile(_inside(prefix)):
            return Python(_inside(prefix), (("CONDA_PREFIX", prefix),))
    raise BadValueError(f'names the conda environment "{name}", which is not there: see conda env list')


def _conda_prefixes(name: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Where an environment of this name may be, the likeliest first."""
    home = environ.get("HOME", os.path.expanduser("~"))
    active = environ.get("CONDA_PREFIX", "")
    if active and environ.get("CONDA_DEFAULT_ENV") == name:
        yield active
    roots = [os.path.dirname(os.path.dirname(environ.get("CONDA_EXE", ""))), environ.get("MAMBA_ROOT_PREFIX", "")]
    roots += [os.path.join(home, root) for root in ("miniconda3", "anaconda3", "miniforge3", "mambaforge", ".conda")]
    roots += ["/opt/conda", "/opt/miniconda3", "/opt/anaconda3"]
    for root in filter(None, roots):
        yield root if name == "base" else os.path.join(root, "envs", name)
    try:
        with open(os.path.join(home, ".conda", "environments.txt"), encoding="utf-8") as known:
            yield from (line.strip() for line in known if os.path.basename(line.strip()) == name)
    except (OSError, UnicodeDecodeError):
        return
