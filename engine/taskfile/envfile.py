"""Reads `env_file`: NAME=value lines, as dotenv has them, without expansion."""

from __future__ import annotations

import os
import re

from .problems import BadValueError
from .readers import refuse_own

_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
_COMMENT = re.compile(r"\s+#.*$")


def read_env_file(path: str) -> dict[str, str]:
    """Variables of a file. Raises BadValueError naming the line that is none."""
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
        match = _LINE.fullmatch(line)
        if match is None or "\0" in line:
            raise BadValueError(f"names {path}, whose line {number} is not NAME=value")
        try:
            refuse_own(match[1])
        except BadValueError as error:
            raise BadValueError(f"names {path}, whose line {number} {error.words}") from None
        found[match[1]] = _value(match[2])
    return found


def _value(text: str) -> str:
    if len(text) >= 2 and text[0] in "'\"" and (end := text.find(text[0], 1)) > 0:
        inner = text[1:end]
        return inner.replace("\\n", "\n") if text[0] == '"' else inner
    return _COMMENT.sub("", text) if not text.startswith("#") else ""
