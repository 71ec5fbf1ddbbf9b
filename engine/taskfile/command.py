"""What a task executes: Python, command and variables as the file says them, their fingerprint, and what starts."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple, cast

from ..core.spec import Command, TaskSpec, Work
from ..globs import matches
from .kinds import refuse_own
from .placeholders import Values, fill, fill_command, fill_markers, fill_shell, lone
from .problems import BadValueError
from .schema import TASK


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


_BYTES = 16
_CHUNK_BYTES = 1 << 20
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")
_ENV_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
_COMMENT = re.compile(r"\s+#.*$")


def filled_command(raw: object, values: Values, likely: Mapping[str, str]) -> Command:
    """A command with its values. A lone placeholder may be a whole command, text or list. *likely*: see `fill_command`.
    Raises BadValueError."""
    read = TASK["command"].kind.read
    if isinstance(raw, str) and lone(raw) is None:
        return fill_command(cast("str", read(raw)), values, likely)
    return cast("Command", read(fill(raw, values, text=True)))


def read_env_file(path: str) -> dict[str, str]:
    """Variables of a file: NAME=value lines, as dotenv has them, without expansion. Raises BadValueError naming the
    line that is none."""
    if os.path.exists(path) and not os.path.isfile(path) and path != os.devnull:
        raise BadValueError(f"names {path}, which is no file")
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise BadValueError(f"names {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadValueError(f"names {path}, which is not UTF-8 text") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _ENV_LINE.fullmatch(line)
        if match is None or "\0" in line:
            raise BadValueError(f"names {path}, whose line {number} is not NAME=value")
        try:
            refuse_own(match[1])
        except BadValueError as error:
            raise BadValueError(f"names {path}, whose line {number} {error.words}") from None
        found[match[1]] = _env_value(match[2])
    return found


def _env_value(text: str) -> str:
    if len(text) >= 2 and text[0] in "'\"" and (end := text.find(text[0], 1)) > 0:
        inner = text[1:end]
        return inner.replace("\\n", "\n") if text[0] == '"' else inner
    return _COMMENT.sub("", text) if not text.startswith("#") else ""


# -- its identity ------------------------------------------------------------------------------------------------------


def fingerprint(command: Command, env: Sequence[tuple[str, str | None]], files: str = "", image: str = "") -> str:
    """Hash of what determines a result: the command, the variables that count, the digest of fingerprint_files, the
    image that it runs in.

    `ascii` writes the same text under every Python and locale, and no two different values alike.
    """
    said = (command, sorted(env), files, image) if image else (command, sorted(env), files)
    return blake2b(ascii(said).encode("ascii"), digest_size=_BYTES).hexdigest()


@lru_cache(maxsize=1024)
def ignoring(globs: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether one of *globs* matches a variable's name."""
    pattern = re.compile("|".join(translate(glob) for glob in globs) or r"(?!)")
    return lambda name: pattern.match(name) is not None


def run_id(task: str, identity: str) -> str:
    """A name for a task's work that stays the same over attempts, restarts and machines (for WANDB_RUN_ID)."""
    return blake2b(f"{task}\0{identity}".encode(), digest_size=8).hexdigest()


def digest_files(patterns: Sequence[str], cwd: str) -> str:
    """Hash of the contents of fingerprint_files. Raises BadValueError where one matches nothing or cannot be read."""
    total = blake2b(digest_size=_BYTES)
    for pattern in patterns:
        path = os.path.join(cwd, os.path.expanduser(pattern))
        files = sorted(file for file in matches(path) if os.path.isfile(file))
        if not files:
            raise BadValueError(f"has {pattern}, which matches no file")
        for file in files:
            total.update(f"{os.path.relpath(file, cwd)}\0".encode("utf-8", "surrogateescape"))
            total.update(_content(file))
    return total.hexdigest()


def _content(path: str) -> bytes:
    digest = blake2b(digest_size=_BYTES)
    try:
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise BadValueError(f"cannot read {path}: {error.strerror}") from None
    return digest.digest()


# -- its start ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RuntimeValues:
    """What an attempt's placeholders stand for."""

    attempt: int
    gpu_ids: tuple[str, ...] = ()
    """As in CUDA_VISIBLE_DEVICES, in its order."""
    cpus: int = 1
    run_dir: str = ""
    log_dir: str = ""
    python: str = ""
    """Interpreter where the task names none."""
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    """The deck's environment, for {env.NAME} of variables that are no part of the fingerprint."""


def finish(
    spec: TaskSpec, work: Work, values: RuntimeValues
) -> tuple[tuple[str, ...], tuple[tuple[str, str | None], ...]]:
    """The program to execute and the variables to add, ready for a process; None unsets a variable.

    A text command runs in bash, or in sh where there is no bash; values are quoted for the shell in it.
    """
    command, env = work.command, work.env
    text = _texts(spec, values)
    if isinstance(command, str):
        argv = ("bash" if spec.extras.image else shell(), "-c", fill_shell(command, text))
    elif any("\0" in word for word in command):
        argv = tuple(fill_markers(word, text) for word in command)
    else:
        argv = command
    if any(said is not None and "\0" in said for _, said in env):
        env = tuple((name, said and fill_markers(said, text)) for name, said in env)
    return argv, env


def told(spec: TaskSpec, command: Command, values: RuntimeValues, unknown: Collection[str]) -> Command:
    """A command of *spec* for people, a text or a list as it is. Of *unknown* placeholders the name stays."""
    text = _texts(spec, values)
    if isinstance(command, str):
        return fill_shell(command, text, kept=unknown)
    return tuple(fill_markers(word, lambda name: f"{{{name}}}" if name in unknown else text(name)) for word in command)


def asked(spec: TaskSpec, values: RuntimeValues) -> dict[str, object]:
    """What the task asks a cluster for, by keys of [slurm]; its `setup` is ready for a shell."""
    text = _texts(spec, values)

    def filled(key: str, value: object) -> object:
        if isinstance(value, str):
            return fill_markers(value, text)
        if isinstance(value, tuple):
            fill = fill_shell if key == "setup" else fill_markers
            return tuple(fill(line, text) for line in cast("tuple[str, ...]", value))
        return value

    return {key: filled(key, value) for key, value in spec.extras.slurm}


@lru_cache(maxsize=1)
def shell() -> str:
    """The shell of text commands."""
    return next((path for path in _SHELLS if os.access(path, os.X_OK)), "/bin/sh")


def _texts(spec: TaskSpec, values: RuntimeValues) -> Callable[[str], str]:
    """The text of a placeholder, by its name."""
    known = {
        "attempt": str(values.attempt),
        "gpu_ids": ",".join(values.gpu_ids),
        "num_gpus": str(len(values.gpu_ids)),
        "cpus": str(values.cpus),
        "run_dir": values.run_dir,
        "log_dir": values.log_dir,
        "run_id": run_id(spec.name, spec.fingerprint),
        "python": spec.python or values.python,
    }
    return lambda name: values.environ.get(name[4:], "") if name.startswith("env.") else known[name]
