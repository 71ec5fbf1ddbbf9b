"""Keeps keys and passwords out of what is written down. By name: a value does not show what it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

MASK = "***"
SHORTEST_SECRET = 6
"""Shorter values would mask half of every command."""

_NAME = re.compile(
    r"(?:.*[_-])?(?:\w*KEYS?|TOKEN|PAT|PASS|PWD|AUTH|CREDENTIALS?)|.*(?:SECRET|PASSWORD|PASSWD|PASSPHRASE|APIKEY).*",
    re.IGNORECASE,
)
_OPTION = re.compile(
    r"--?(?:.*[_-])?(?:api|access|secret|private)?[_-]?(?:key|token|secret|password|passwd)", re.IGNORECASE
)
_NOT_SECRET = frozenset({"PWD", "OLDPWD"})
_ASSIGNMENT = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]{0,80}[= ]|[A-Za-z_]\w{0,80}=)('[^']*'|\"[^\"]*\"|[^\s'\";&|]+)")
_SPACE = re.compile(r"\s")
_URL_PASSWORD = re.compile(r"(://[^/\s:@]{1,200}):[^/\s@]{1,200}@")


def is_secret(name: str) -> bool:
    """Whether an environment variable of this name holds something that must not be written down."""
    return name.upper() not in _NOT_SECRET and _NAME.fullmatch(name[:200]) is not None


def secrets_in(environment: Mapping[str, str]) -> list[str]:
    """Values of variables that hold keys or passwords."""
    return [value for name, value in environment.items() if len(value) >= SHORTEST_SECRET and is_secret(name)]


def mask(word: str, secrets: Sequence[str]) -> str:
    """*word* without any of *secrets*."""
    for secret in secrets:
        word = word.replace(secret, MASK)
    return word


def masked_env(env: Iterable[tuple[str, str | None]]) -> dict[str, str | None]:
    """By name, secret values masked; None: unset."""
    return {name: MASK if value and is_secret(name) else _without_password(value) for name, value in env}


def masked_command(command: str | Sequence[str]) -> str | list[str]:
    """The command with the values of `--api-key X`, `--token=X`, `HF_TOKEN=X` and passwords in URLs masked."""
    if isinstance(command, str):
        return _mask_line(command)
    masked: list[str] = []
    for word in command:
        follows = masked and _OPTION.fullmatch(masked[-1]) and not word.startswith("-")
        masked.append(MASK if follows else _mask_word(word))
    return masked


def _mask_line(line: str) -> str:
    return _URL_PASSWORD.sub(rf"\1:{MASK}@", _ASSIGNMENT.sub(_mask_assignment, line))


def _mask_word(word: str) -> str:
    if _SPACE.search(word):
        return _mask_line(word)
    name, equals, value = word.partition("=")
    if equals and value and _is_secret_assignment(name):
        return f"{name}={MASK}"
    return word if "://" not in word else _URL_PASSWORD.sub(rf"\1:{MASK}@", word)


def _mask_assignment(found: re.Match[str]) -> str:
    name = found[1][:-1]
    return f"{found[1]}{MASK}" if _is_secret_assignment(name) else found[0]


def _is_secret_assignment(name: str) -> bool:
    return _OPTION.fullmatch(name) is not None if name.startswith("-") else is_secret(name)


def _without_password(value: str | None) -> str | None:
    return value if not value or "://" not in value else _URL_PASSWORD.sub(rf"\1:{MASK}@", value)
