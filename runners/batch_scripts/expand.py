"""Expands words as the shell does, as far as the script alone tells their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Union

from . import grammar
from .words import (
    ADDRESS,
    ARGUMENT,
    BATCH,
    BRANCH,
    COMMAND,
    ENVIRONMENT,
    FILE,
    LOOKUP,
    RUN,
    Piece,
    Unknown,
    Word,
    literal,
    made,
    relabel,
)

if TYPE_CHECKING:
    from tree_sitter import Node

Value = Union[Word, tuple[Word, ...]]
TASK = "SLURM_ARRAY_TASK_ID"
JOB_NUMBERS = ("SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID")
NODE_LISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURMD_NODENAME", "HOSTNAME")
# Variables that a job sets, by how they begin, and those of bash itself.
OF_RUN = ("SLURM_", "SLURMD_", "PBS_", "COBALT_", "PMI_", "PALS_", "PMIX_", "OMPI_", "MPI_", "MV2_")
OWN = ("RANDOM", "SECONDS", "BASHPID", "CUDA_VISIBLE_DEVICES", "SLURM_JOB_NAME")
# The script's shell runs on the first node, and is no rank.
OF_FIRST = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
# The folder in which the script was submitted; there the launch line is typed.
SUBMITTED = ("SLURM_SUBMIT_DIR", "PBS_O_WORKDIR", "COBALT_CWD")
# Variables that every login has, whatever a sourced file sets.
OF_LOGIN = ("USER", "HOME", "LOGNAME", "PWD", "SCRATCH", "PSCRATCH", "WORK", "PATH", "SHELL")
QUOTED = '$"\\`'  # signs that a backslash escapes in double quotes
MOST_ITEMS = 100  # of a brace range


@dataclass
class Scope:
    """What is known of variables at a place of the script.

    `given` has what the directives fix, such as SLURM_NNODES. `sourced`: a file was read that may
    set any variable. `per_rank`: the text runs once on each rank. `arguments` are None for those of
    the script, which only the submission knows.
    """

    variables: dict[str, Value] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    arguments: list[Word] | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    sourced: bool = False
    per_rank: bool = False

    def copy(self) -> Scope:
        return Scope(
            dict(self.variables),
            set(self.exported),
            self.arguments,
            self.given,
            self.sourced,
            self.per_rank,
        )

    def value(self, name: str, line: int) -> Value:
        """Return a variable's value, or what kind of unknown it is."""
        if name in self.variables:
            return self.variables[name]
        if name.isdecimal():
            arguments, place = self.arguments or [], int(name) - 1
            if 0 <= place < len(arguments):
                return arguments[place]
            return self._unknown(name, ARGUMENT, line)
        if name in self.given:
            return literal(self.given[name], line)
        folder = self.variables.get("PWD")
        if name in SUBMITTED and (not isinstance(folder, Word) or folder.text == "$PWD"):
            return self._unknown("PWD", ENVIRONMENT, line)
        if name in NODE_LISTS:
            return self._unknown(name, ADDRESS, line)
        if name in OF_FIRST and not self.per_rank:
            return literal("0", line)
        if (name in OWN or not name.isidentifier()) and not self.per_rank:
            return self._unknown(name, BATCH, line)
        if name.startswith(OF_RUN) or name in (*OWN, "TMPDIR") or not name.isidentifier():
            return self._unknown(name, RUN, line)
        return self._unknown(name, self._kind(name), line)

    def _kind(self, name: str) -> str:
        return FILE if self.sourced and name not in OF_LOGIN else ENVIRONMENT

    def _unknown(self, name: str, kind: str, line: int) -> Word:
        return Word((Unknown(f"${name}", kind, line),), line)


class Expander:
    """Expands the words of one place; `substitute` evaluates $(...), `octal` is told of lines."""

    def __init__(
        self, scope: Scope, substitute: Callable[[Node], Word], octal: Callable[[int], None]
    ) -> None:
        self.scope, self.substitute, self.octal = scope, substitute, octal
        self.offset = 0

    def words(self, node: Node) -> list[Word]:
        """Return the words that a node becomes: none, one or several."""
        at = self.line(node)
        return [made(pieces, at) for pieces in self._fields(node)]

    def word(self, node: Node | None, at: int = 0) -> Word:
        """Return a node as one word, as in an assignment."""
        if node is None:
            return literal("", at)
        fields = self._fields(node, split=False)
        pieces: list[Piece] = []
        for each in fields:
            pieces += [" ", *each] if pieces else each
        return made(pieces, self.line(node))

    def array(self, node: Node) -> tuple[Word, ...]:
        return tuple(word for child in node.named_children for word in self.words(child))

    def line(self, node: Node) -> int:
        return grammar.line(node) + self.offset

    def _fields(self, node: Node, split: bool = True) -> list[list[Piece]]:
        if node.type == "concatenation":
            return self._concatenated(node, split)
        if node.type == "string":
            return self._string(node)
        if node.type == "brace_expression":
            return [[text] for text in _range(grammar.source(node))]
        if node.type in ("simple_expansion", "expansion"):
            return _split(self._expansion(node, quoted=False), split)
        if node.type == "command_substitution":
            return _split([self.substitute(node)], split)
        return [self._piece(node, split)]

    def _piece(self, node: Node, split: bool) -> list[Piece]:
        """Return a node that is always one word."""
        text = grammar.source(node)
        if node.type == "raw_string":
            return [text[1:-1]]
        if node.type == "ansi_c_string":
            return [text[2:-1].encode().decode("unicode_escape")]
        if node.type == "arithmetic_expansion":
            return list(self.arithmetic(node).pieces)
        if node.type in ("word", "number", "variable_name", "extglob_pattern", "regex"):
            if split and ("*" in text or "?" in text or ("[" in text and "]" in text)):
                return [Unknown(text, RUN, self.line(node))]
            text = _unescaped(text)
            if text == "~" or text.startswith("~/"):
                return [Unknown("$HOME", ENVIRONMENT, self.line(node)), text[1:]]
            return [text]
        return [Unknown(text, COMMAND, self.line(node))]

    def _concatenated(self, node: Node, split: bool) -> list[list[Piece]]:
        texts = [grammar.source(child) for child in node.children]
        if texts[0] == "{" and texts[2:] == ["}"]:
            return [[text] for text in texts[1].split(",")]
        if "{" in texts and "}" in texts:
            return [[Unknown(grammar.source(node), RUN, self.line(node))]]
        whole: list[list[Piece]] = [[]]
        for child in node.children:
            fields = self._fields(child, split)
            if fields:
                whole[-1] += fields[0]
                whole += fields[1:]
        return whole

    def _string(self, node: Node) -> list[list[Piece]]:
        """Return a text in double quotes: one word, but for "$@" and "${list[@]}"."""
        whole: list[list[Piece]] = [[]]
        parts = list(grammar.pieces(node))
        for part in parts:
            if isinstance(part, str):
                whole[-1].append(_unescaped(part, only=QUOTED))
            elif part.type in ("simple_expansion", "expansion"):
                words = self._expansion(part, quoted=True)
                if not words and len(parts) == 3:  # an empty list between the quotes is no word
                    return []
                whole[-1] += words[0].pieces if words else ()
                whole += [list(word.pieces) for word in words[1:]]
            elif part.type == "command_substitution":
                whole[-1] += self.substitute(part).pieces
            elif part.type == "arithmetic_expansion":
                whole[-1] += self.arithmetic(part).pieces
            elif part.type == "string_content":
                whole[-1].append(_unescaped(grammar.source(part), only=QUOTED))
            elif part.is_named:
                whole[-1].append(Unknown(grammar.source(part), COMMAND, self.line(part)))
        return whole

    def _expansion(self, node: Node, quoted: bool) -> list[Word]:
        """Return the words of $NAME or ${...}."""
        text, at = grammar.source(node).lstrip(" \t\n\\"), self.line(node)
        inner = [child for child in node.children if child.type not in ("$", "${", "}")]
        name = grammar.source(inner[0]) if inner else ""
        if inner and inner[0].type == "subscript":
            return self._item(inner, text, at)
        if name in ("@", "*"):
            known = self.scope.arguments if len(inner) == 1 else None
            return [_of(text, ARGUMENT, at)] if known is None else known
        if name == "#" or not inner:
            return [_of(text, RUN, at)]
        value = self.scope.value(name, at)
        word = (value[0] if value else literal("", at)) if isinstance(value, tuple) else value
        if len(inner) == 1:
            return [word]
        return [self._modified(word, inner, text, at)]

    def _modified(self, word: Word, inner: Sequence[Node], text: str, at: int) -> Word:
        """Return ${NAME:-other}, ${NAME: -4} and the like."""
        name, sign = grammar.source(inner[0]), grammar.source(inner[1])
        digits = name in JOB_NUMBERS and sign in (":", "%", "#", "##")
        kinds = [piece.kind for piece in word.unknown]
        if sign in (":-", "-", ":=", "=", ":?", "?", ":+", "+"):
            other = self.word(inner[2], at) if len(inner) > 2 else literal("", at)
            if sign in ("?", ":?") and name not in self.scope.variables:
                return word
            if name in self.scope.variables and (word.known is not None or "+" not in sign):
                filled = bool(word.pieces) or not sign.startswith(":")
                if "+" in sign:
                    return other if filled else literal("", at)
                return word if filled else other
            kinds += [piece.kind for piece in other.unknown if piece.kind != ENVIRONMENT]
            kinds.reverse()
            text = f"${{{name}{sign.replace('=', '-')}{_in_braces(other)}}}"
        kind = kinds[0] if kinds else COMMAND
        if name in self.scope.variables and kind == ENVIRONMENT:
            kind = BRANCH  # the user's shell has no such variable
        made_ = Word((Unknown(text, kind, at, (), digits, digits),), at)
        if sign in (":=", "="):
            self.scope.variables[name] = made_
        return made_

    def _item(self, inner: Sequence[Node], text: str, at: int) -> list[Word]:
        """Return ${LIST[...]}."""
        name = inner[0].child_by_field_name("name")
        index = inner[0].child_by_field_name("index")
        value = self.scope.value(grammar.source(name) if name else "", at)
        items = value if isinstance(value, tuple) else (value,)
        if len(inner) > 1 or index is None:
            return [_of(text, COMMAND, at)]
        which = grammar.source(index)
        if which in ("@", "*"):
            return list(items)
        if any(item.has(ADDRESS) for item in items):
            return [_of(text, ADDRESS, at)]
        known = self.word(index).known
        if known is not None and known.isdecimal() and int(known) < len(items):
            return [items[int(known)]]
        texts = [item.known for item in items]
        if which.strip("${}") == TASK and None not in texts:
            values = tuple(item.text for item in items)
            return [Word((Unknown(text, LOOKUP, at, values),), at)]
        return [_of(text, RUN, at)]

    def arithmetic(self, node: Node) -> Word:
        """Return the value of $((...)), or one unknown piece."""
        inner = [child for child in node.children if child.is_named]
        number = self._number(inner[0]) if len(inner) == 1 else None
        if number is not None:
            return literal(str(number), self.line(node))
        at, text = self.line(node), grammar.source(node)
        kinds, digits = [], False
        for part in grammar.below(node, "variable_name", "expansion", "command_substitution"):
            if part.type == "command_substitution":
                word = self.substitute(part)
            elif part.type == "expansion":
                word = self.word(part)
            else:
                value = self.scope.value(grammar.source(part), at)
                word = value if isinstance(value, Word) else literal("")
            kinds += [piece.kind for piece in word.unknown]
            digits |= any(piece.digits for piece in word.unknown)
            if any(piece.padded for piece in word.unknown) and _bare(part):
                self.octal(at)
        job_number = any(name in text for name in JOB_NUMBERS) and "%" in text
        kind = next((kind for kind in kinds if kind != ENVIRONMENT), RUN)
        return Word((Unknown(text, kind, at, digits=digits or job_number),), at)

    def _number(self, node: Node) -> int | None:
        """Return the value of an arithmetic expression, None where it is not known."""
        text = grammar.source(node)
        if node.type == "parenthesized_expression":
            return self._number(node.named_children[0])
        if node.type == "binary_expression" and len(node.children) == 3:
            left, right = self._number(node.children[0]), self._number(node.children[2])
            if left is None or right is None:
                return None
            return _calculated(left, grammar.source(node.children[1]), right)
        if node.type in ("number", "word", "variable_name"):
            if text.isdecimal():
                return int(text)
            value = self.scope.value(text, 0)
            return value.number if isinstance(value, Word) else None
        return self.word(node).number


def _bare(node: Node) -> bool:
    """Whether no base, as in 10#$X, stands before a number."""
    return node.parent is None or node.parent.type != "number"


def _in_braces(word: Word) -> str:
    """Return the word as it stands behind the sign of ${NAME:-...}, within double quotes."""
    return "".join(
        "".join(f"\\{sign}" if sign in f"{QUOTED}}}" else sign for sign in piece)
        if isinstance(piece, str)
        else piece.source
        for piece in word.pieces
    )


def _of(text: str, kind: str, at: int) -> Word:
    return Word((Unknown(text, kind, at),), at)


def _calculated(left: int, sign: str, right: int) -> int | None:
    if sign in ("/", "%") and right == 0:
        return None
    results = {
        "+": left + right,
        "-": left - right,
        "*": left * right,
        "/": left // right if right else 0,
        "%": left % right if right else 0,
    }
    return results.get(sign)


def _range(text: str) -> list[str]:
    first, _, last = text[1:-1].partition("..")
    if first.isdecimal() and last.isdecimal() and int(first) <= int(last) < MOST_ITEMS:
        return [str(number) for number in range(int(first), int(last) + 1)]
    return [text]


def _split(words: Sequence[Word], split: bool) -> list[list[Piece]]:
    """Split words without quotes at their blanks."""
    whole: list[list[Piece]] = []
    for word in words:
        if not split:
            whole.append(list(word.pieces))
            continue
        current: list[Piece] = []
        for piece in word.pieces:
            if isinstance(piece, Unknown):
                current.append(piece)
                continue
            parts = piece.split()
            if current and piece[:1].isspace():
                whole.append(current)
                current = []
            for place, part in enumerate(parts):
                if place:
                    whole.append(current)
                    current = []
                current.append(part)
            if parts and piece[-1:].isspace():
                whole.append(current)
                current = []
        whole += [current] if current else []
    return whole


def _unescaped(text: str, only: str = "") -> str:
    """Return a text without backslashes: before any sign, or before those in `only`."""
    signs, plain = iter(text), ""
    for sign in signs:
        if sign == "\\":
            sign = next(signs, "\\")
            plain += "\\" if only and sign not in f"{only}\n" else ""
            sign = "" if sign == "\n" else sign
        plain += sign
    return plain


def hidden(value: Value, name: str, kind: str) -> Word:
    """Return a variable whose value is not the same on all ways through the script."""
    line = value.line if isinstance(value, Word) else 0
    return relabel(value if isinstance(value, Word) else literal("", line), kind, f"${name}")
