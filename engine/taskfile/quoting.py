"""How bash reads each place of a command: where a quoted value becomes text of one word, and where quotes do not help.

A command is scanned as bash parses it: quotes, `$(…)` inside them, here-documents, comments. What the scan cannot
follow (`case` inside `$(…)`, a here-document whose end a value decides) is *unclear* from there on: never taken for
safe.
"""

from __future__ import annotations

import re
from enum import Enum, auto

HOLE = "\0"
"""Stands in a scanned command for a value."""


class Place(Enum):
    """Where a value stands; its text is what an error message says of it."""

    BARE = "outside quotes"
    COMMENT = "in a comment"
    QUOTES = "inside quotes"
    BACKTICKS = "inside `…`"
    ARITHMETIC = "inside $((…))"
    PARAMETER = "inside ${…}"
    ESCAPED = "after a backslash"
    HEREDOC = "in a here-document"
    UNCLEAR = "where it is not clear how bash reads it"


class _In(Enum):
    """What is open, innermost last."""

    CODE = auto()
    SINGLE = auto()
    DOUBLE = auto()
    ANSI = auto()
    BACKTICKS = auto()
    ARITHMETIC = auto()
    PARAMETER = auto()
    QUOTED_PARAMETER = auto()
    COMMENT = auto()
    UNCLEAR = auto()


_PLACES = {
    _In.CODE: Place.BARE,
    _In.SINGLE: Place.QUOTES,
    _In.DOUBLE: Place.QUOTES,
    _In.ANSI: Place.QUOTES,
    _In.BACKTICKS: Place.BACKTICKS,
    _In.ARITHMETIC: Place.ARITHMETIC,
    _In.PARAMETER: Place.BARE,
    _In.QUOTED_PARAMETER: Place.PARAMETER,
    _In.COMMENT: Place.COMMENT,
    _In.UNCLEAR: Place.UNCLEAR,
}
_CLOSED_BY = {
    _In.SINGLE: "'", _In.DOUBLE: '"', _In.ANSI: "'", _In.BACKTICKS: "`", _In.PARAMETER: "}",
    _In.QUOTED_PARAMETER: "}", _In.COMMENT: "\n",
}  # fmt: skip
_NO_ESCAPES = (_In.SINGLE, _In.COMMENT, _In.UNCLEAR)
_EXPANDING = (_In.CODE, _In.DOUBLE, _In.PARAMETER, _In.QUOTED_PARAMETER, _In.ARITHMETIC)
_PLAIN = re.compile(r"[A-Za-z0-9_.,:/=@%+-]+")
"""Means itself wherever it stands."""
_SIMPLE = re.compile(r"[^\\'\"`$#<()]*")
"""Nothing in it changes what comes after."""
_BEFORE_WORDS = " \t\n;&|()<>"
_CASE = re.compile(r"case\s")
_HEREDOC = re.compile(r"<<(-?)[ \t]*((?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s;&|()<>'\"\\])+)")


def places(command: str) -> list[Place]:
    """For each HOLE of a command, where it stands."""
    before = command[: command.rfind(HOLE) + 1]
    if _SIMPLE.fullmatch(before):
        return [Place.BARE] * before.count(HOLE)
    scan = _Scan(command)
    while scan.at < len(before):
        scan.step()
    return scan.found


class _Scan:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: list[Place] = []
        self._open = [_In.CODE]
        self._depths = [0]
        """Of parentheses, for each that is open."""
        self._fresh = True
        """A word may begin here."""
        self._awaited: list[tuple[str, bool]] = []
        """Here-documents whose text begins on the next line: their last line, and whether its tabs are left out."""

    def step(self) -> None:
        inside, character = self._open[-1], self.text[self.at]
        fresh, self._fresh = self._fresh, False
        plain = _PLAIN.match(self.text, self.at)
        if plain is not None and not (fresh and len(self._open) > 1 and _CASE.match(self.text, self.at)):
            self.at = plain.end()
            return
        if character == HOLE:
            self.found.append(_PLACES[inside])
            self.at += 1
        elif character == "\\" and inside not in _NO_ESCAPES:
            self._escape(inside)
        elif character == _CLOSED_BY.get(inside):
            self._close(inside)
        elif character in "$`" and inside in _EXPANDING:
            self._expansion(inside)
        elif inside is _In.CODE:
            self._code(character, fresh=fresh)
        else:
            self._quoted(inside, character)

    def _push(self, inside: _In, width: int) -> None:
        self._open.append(inside)
        self._depths.append(0)
        self._fresh = inside is _In.CODE
        self.at += width

    def _pop(self) -> None:
        self._open.pop()
        self._depths.pop()

    def _close(self, inside: _In) -> None:
        """A comment's line break ends the command before it, too."""
        self._pop()
        self.at += inside is not _In.COMMENT

    def _escape(self, inside: _In) -> None:
        if self.text[self.at + 1 : self.at + 2] == HOLE:
            self.found.append(Place.ESCAPED if inside is _In.CODE else _PLACES[inside])
        self.at += 2

    def _expansion(self, inside: _In) -> None:
        """What `$` or a backtick begins."""
        rest = self.text[self.at : self.at + 3]
        quoted = inside in (_In.DOUBLE, _In.QUOTED_PARAMETER)
        if rest[0] == "`":
            self._push(_In.BACKTICKS, 1)
        elif rest == "$((":
            self._push(_In.ARITHMETIC, 1)
        elif rest[:2] == "$(":
            self._push(_In.CODE, 2)
        elif rest[:2] == "${":
            self._push(_In.QUOTED_PARAMETER if quoted else _In.PARAMETER, 2)
        elif rest[:2] == "$'" and not quoted:
            self._push(_In.ANSI, 2)
        else:
            self.at += 1

    def _code(self, character: str, *, fresh: bool) -> None:
        if character in "'\"":
            self._push(_In.SINGLE if character == "'" else _In.DOUBLE, 1)
        elif character == "#" and fresh:
            self._push(_In.COMMENT, 1)
        elif _CASE.match(self.text, self.at):  # in CODE that is open, where a word begins: else `_PLAIN` has taken it
            self._push(_In.UNCLEAR, 1)
        elif self.text.startswith("<<", self.at):
            self._redirection()
        elif character == "\n":
            self.at += 1
            self._fresh = True
            self._here_documents()
        else:
            self._fresh = character in _BEFORE_WORDS
            self.at += 1
            if character in "()":
                self._parenthesis(character)

    def _quoted(self, inside: _In, character: str) -> None:
        """A character that closes nothing."""
        expanding = inside in (_In.PARAMETER, _In.QUOTED_PARAMETER, _In.ARITHMETIC)
        if expanding and character == "'" and inside is not _In.PARAMETER:
            self._push(_In.UNCLEAR, 1)  # whether it quotes depends on the operator before it
        elif expanding and character in "'\"":
            self._push(_In.SINGLE if character == "'" else _In.DOUBLE, 1)
        else:
            self.at += 1
            if inside is _In.ARITHMETIC and character in "()":
                self._parenthesis(character)

    def _parenthesis(self, character: str) -> None:
        """Of `$(…)` the last one closes it; `(` of a subshell and `)` of a `case` mean nothing here."""
        if character == "(":
            self._depths[-1] += 1
            return
        self._depths[-1] -= 1
        arithmetic = self._open[-1] is _In.ARITHMETIC
        if len(self._open) > 1 and self._depths[-1] < (1 if arithmetic else 0):
            self._pop()
            if self._awaited:
                self._push(_In.UNCLEAR, 0)

    def _redirection(self) -> None:
        if self.text.startswith("<<<", self.at):
            self.at += 3
            return
        match = _HEREDOC.match(self.text, self.at)
        if match is None or HOLE in match[0] or self.text[match.end() : match.end() + 1] in (HOLE, "$", "`"):
            self._push(_In.UNCLEAR, 2)
            return
        self._awaited.append((re.sub(r"\\(.)|['\"]", r"\1", match[2]), bool(match[1])))
        self.at = match.end()

    def _here_documents(self) -> None:
        for last, tabs in self._awaited:
            while self.at < len(self.text):
                line, _, _ = self.text[self.at :].partition("\n")
                self.at = min(self.at + len(line) + 1, len(self.text))
                if (line.lstrip("\t") if tabs else line) == last:
                    break
                self.found += [Place.HEREDOC] * line.count(HOLE)
        self._awaited.clear()
