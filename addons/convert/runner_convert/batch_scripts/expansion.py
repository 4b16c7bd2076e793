"""Expands words as the shell does, as far as the script alone tells their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import add, floordiv, mod, mul, sub

from . import syntax
from . import words as kinds
from .commands import (
    ALL_ARGUMENTS,
    JOB_NUMBERS,
    OF_JOB,
    OF_RANKS,
    SUBMITTED,
    TASK,
    Scope,
    undecided,
)
from .syntax import Node
from .words import (
    QUOTED,
    Piece,
    Unknown,
    Word,
    compose,
    join,
    literal,
    restored,
    split_at_blanks,
    unescaped,
    unknown,
    unsplit,
)

BRACED = QUOTED + "}"  # those of a word in ${NAME:-...}
ANSI_C = re.compile(r"""\$'([^\\]|\\[abfnrtv\\'"])*'""")  # the escapes that Python has too
MOST_ITEMS = 100  # of a brace range
OPERATORS: dict[str, Callable[[int, int], int]] = dict(zip("+-*/%", (add, sub, mul, floordiv, mod)))


@dataclass
class Expander:
    """Expands the words of one place; `substitute` evaluates $(...), `octal` is told of lines."""

    scope: Scope
    substitute: Callable[[Node], Word]
    octal: Callable[[int], None]
    offset: int

    def words(self, node: Node, split: bool = True) -> list[Word]:
        at = self.line(node)
        return [compose(pieces, at) for pieces in self._fields(node, split)]

    def word(self, node: Node | None, at: int = 0) -> Word:
        if node is None:
            return literal("", at)
        return join(self.words(node, split=False), " ", self.line(node))

    def array(self, node: Node) -> tuple[Word, ...]:
        items = [child for child in node.named_children if child.type != "comment"]
        return tuple(word for child in items for word in self.words(child))

    def line(self, node: Node) -> int:
        return syntax.line(node) + self.offset

    def _fields(self, node: Node, split: bool = True) -> list[list[Piece]]:
        if node.type == "concatenation":
            return self._concatenated(node, split)
        if node.type == "string":
            return self._string(node)
        if node.type == "brace_expression":
            items = _range(syntax.source(node))
            many = Unknown(syntax.source(node), kinds.BRANCH, self.line(node))
            return [[item] for item in items] if len(items) > 1 else [[many]]
        if node.type in ("simple_expansion", "expansion", "command_substitution"):
            known = node.type != "command_substitution"
            words = self._expansion(node) if known else [self.substitute(node)]
            return split_at_blanks(words) if split else [unsplit(word) for word in words]
        return [self._piece(node, split)]

    def _piece(self, node: Node, split: bool) -> list[Piece]:
        text = syntax.source(node)
        if node.type == "raw_string":
            return restored(text[1:-1], self.scope.variables)
        if node.type == "ansi_c_string" and ANSI_C.fullmatch(text):
            plain = text[2:-1].encode("latin-1", "backslashreplace").decode("unicode_escape")
            return restored(plain, self.scope.variables)
        if node.type == "arithmetic_expansion":
            return list(self.arithmetic(node).pieces)
        if node.type in ("word", "number", "variable_name", "extglob_pattern", "regex"):
            bare = text.replace("\\*", "").replace("\\?", "").replace("\\[", "")
            matches = "*" in bare or "?" in bare or ("[" in bare and "]" in bare)
            if split and text[:1] != "-" and matches:
                return [Unknown(text, kinds.RUN, self.line(node))]
            text = unescaped(text)
            if text == "~" or text.startswith("~/"):
                return [Unknown("$HOME", kinds.ENVIRONMENT, self.line(node)), text[1:]]
            return [text]
        return [Unknown(text, kinds.COMMAND, self.line(node))]

    def _concatenated(self, node: Node, split: bool) -> list[list[Piece]]:
        texts = [syntax.source(child) for child in node.children]
        expands = any("," in text or ".." in text for text in texts)  # {A} is no list
        if expands and texts[0] == "{" and texts[2:] == ["}"]:
            return [[text] for text in texts[1].split(",") if text]
        if expands and "{" in texts and "}" in texts:
            return [[Unknown(syntax.source(node), kinds.RUN, self.line(node))]]
        whole: list[list[Piece]] = [[]]
        for child in node.children:
            splits = split and (child.type != "word" or texts[0][:1] != "-")
            if fields := self._fields(child, splits):
                whole[-1] += fields[0]
                whole += fields[1:]
        return whole

    def _string(self, node: Node) -> list[list[Piece]]:
        """Return a text in double quotes: one word, but for "$@" and "${list[@]}"."""
        whole: list[list[Piece]] = [[]]
        parts = list(syntax.pieces(node))
        for part in parts:
            if isinstance(part, str):
                whole[-1].append(unescaped(part, only=QUOTED))
            elif part.type in ("simple_expansion", "expansion"):
                words = self._expansion(part)
                if syntax.source(part).strip("${}").endswith(("*", "[*]")):
                    words = [join(words, " ", self.line(part))]
                if not words and len(parts) == 3:  # an empty list between the quotes is no word
                    return []
                whole[-1] += unsplit(words[0]) if words else ()
                whole += map(unsplit, words[1:])
            elif part.type == "$":  # of no variable
                whole[-1].append("$")
            elif part.type == "string_content":
                whole[-1].append(unescaped(syntax.source(part), only=QUOTED))
            elif part.is_named:
                whole[-1] += unsplit(self.word(part))
        return whole

    def _expansion(self, node: Node) -> list[Word]:
        text, at = syntax.source(node).lstrip(" \t\n\\"), self.line(node)
        inner = [child for child in node.children if child.type not in ("$", "${", "}")]
        name = syntax.source(inner[0]) if inner else ""
        if inner and inner[0].type == "subscript":
            return self._item(inner, text, at)
        if name in ("@", "*"):
            known = self.scope.arguments if len(inner) == 1 else self._behind_some(inner)
            return [unknown(text, kinds.ARGUMENT, at)] if known is None else known
        if name == "#" or not inner:
            return [self._length(inner) or unknown(text, kinds.RUN, at)]
        word = self.scope.word(name, at)
        if name == "MASTER_PORT" and word.known is None:  # each rank has one
            word = undecided(word, kinds.PORT[1:], kinds.RUN)
        if name == "MASTER_ADDR" and word.has(kinds.COMMAND, kinds.BRANCH):
            word = undecided(word, kinds.HOST[1:], kinds.RUN)
        return [word if len(inner) == 1 else self._modified(word, inner, text, at)]

    def _behind_some(self, inner: Sequence[Node]) -> list[Word] | None:
        """Return the arguments of "${@:2}", None where they are not known."""
        first = self.word(inner[-1]).number if syntax.source(inner[1]) == ":" else None
        arguments = self.scope.arguments
        if arguments is None or not first or len(inner) != 3:
            return None
        vague = any(word.text in ALL_ARGUMENTS or word.splits for word in arguments)
        return None if vague else arguments[first - 1 :]

    def _length(self, inner: Sequence[Node]) -> Word | None:
        """Return the number of a list's items: known ones, or the nodes of the job."""
        name = syntax.source(inner[-1]) if inner else ""  # ${}
        name = name.removesuffix("[@]").removesuffix("[*]")
        items = self.scope.variables.get(name)
        if not isinstance(items, tuple):
            return None
        if [item.text.split("$SLURM")[0] for item in items] == ["$(scontrol show hostnames "]:
            nodes = self.scope.given.get("SLURM_NNODES")
            return literal(nodes) if nodes and "|" not in items[0].text else None
        return None if any(item.unknown for item in items) else literal(str(len(items)))

    def _modified(self, word: Word, inner: Sequence[Node], text: str, at: int) -> Word:
        """Return ${NAME:-other}, ${NAME: -4} and the like."""
        name, sign = syntax.source(inner[0]), syntax.source(inner[1])
        if sign in (":-", "-", ":=", "=", ":?", "?", ":+", "+"):
            alternative = self.word(inner[2], at) if len(inner) > 2 else literal("", at)
            return self._or_other(word, name, sign, alternative, at)
        # With a $ in it its value is the script's, not the user's shell's.
        of_script = [kinds.BRANCH] if "$" in text[1:] else []
        kinds_of = [*of_script, *(piece.kind for piece in word.unknown)]
        digits = name in JOB_NUMBERS and sign in (":", "%", "#", "##")
        return self._as_in_shell(name, text, kinds_of, at, digits)

    def _or_other(self, word: Word, variable: str, sign: str, alternative: Word, at: int) -> Word:
        """Return ${NAME:-other}, ${NAME:+other} and the like."""
        name, of_script, if_set = variable, variable in self.scope.variables, "+" in sign
        if of_script and not if_set and (first := _copied(word)):
            name, of_script = first, False  # both may be empty
        always = word.has(kinds.ADDRESS, kinds.BATCH) or "?" in sign
        always = always or name in (*OF_JOB, *OF_RANKS, "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
        if not of_script and not if_set and (always or name in (*self.scope.given, *SUBMITTED)):
            return word
        if of_script and (word.known is not None or not if_set):
            filled = bool(word.pieces) or not sign.startswith(":")
            word = literal("", at) if if_set else word
            return alternative if filled == if_set else word
        kinds_of = [piece.kind for piece in word.unknown]
        kinds_of += [piece.kind for piece in alternative.unknown if piece.kind != kinds.ENVIRONMENT]
        text = f"${{{name}{sign.replace('=', '-')}{alternative.escaped(BRACED)}}}"
        result = self._as_in_shell(name, text, kinds_of[::-1], at)
        if sign in (":=", "="):
            self.scope.variables[variable] = result
        return result

    def _as_in_shell(
        self, name: str, text: str, kinds_of: Sequence[str], at: int, digits: bool = False
    ) -> Word:
        """Return an unknown piece of the first of these kinds, as the user's shell has it."""
        kind = next(iter(kinds_of), kinds.COMMAND)
        if name in self.scope.variables:
            kind = kinds.BRANCH if kind == kinds.ENVIRONMENT else kind  # which it does not have
        elif name in SUBMITTED:
            text = text.replace(name, "PWD", 1)
        return Word((Unknown(text, kind, at, (), digits, digits),), at)

    def _item(self, inner: Sequence[Node], text: str, at: int) -> list[Word]:
        name = inner[0].child_by_field_name("name")
        index = inner[0].child_by_field_name("index")
        value = self.scope.value(syntax.source(name) if name else "", at)
        items = value if isinstance(value, tuple) else (value,)
        if len(inner) > 1 or index is None:
            return [unknown(text, kinds.COMMAND, at)]
        which = syntax.source(index)
        if which in ("@", "*"):
            return list(items)
        if any(item.has(kinds.ADDRESS) for item in items):
            return [unknown(text, kinds.ADDRESS, at)]
        known = self.word(index).known
        if known is not None and known.isdecimal() and int(known) < len(items):
            return [items[int(known)]]
        texts = [item.known for item in items]
        if which.strip("${}") == TASK and None not in texts:
            values = tuple(item.text for item in items)
            return [Word((Unknown(text, kinds.LOOKUP, at, values),), at)]
        return [unknown(text, kinds.RUN, at)]

    def arithmetic(self, node: Node) -> Word:
        """Return the value of $((...)), or one unknown piece."""
        inner, at = [child for child in node.children if child.is_named], self.line(node)
        number = self.number(inner[0]) if len(inner) == 1 else None
        if number is not None:
            return literal(str(number), at)
        parts = [*syntax.below(node, "variable_name", "expansion", "command_substitution")]
        pieces = [(part, piece) for part in parts for piece in self._term(part).unknown]
        for part, piece in pieces:
            based = part.parent is not None and part.parent.type == "number"  # as 10#$X
            if piece.padded and not based:
                self.octal(at)
        text, names = syntax.source(node), [piece.source[1:].strip("{}") for _, piece in pieces]
        only_names = all(name.isidentifier() and name in text for name in names)
        whose = (piece.kind for _, piece in pieces if piece.kind != kinds.ENVIRONMENT)
        kind = next(whose, kinds.COMMAND)
        if kind == kinds.RUN and not (only_names and len(pieces) == len(parts)):
            kind = kinds.COMMAND  # the shell of a rank has other values
        cut = any(name in text for name in JOB_NUMBERS) and "%" in text
        digits = cut or any(piece.digits for _, piece in pieces)
        return Word((Unknown(text, kind, at, digits=digits),), at)

    def _term(self, node: Node) -> Word:
        named = node.type in ("variable_name", "word", "number")
        return self.scope.word(syntax.source(node), self.line(node)) if named else self.word(node)

    def number(self, node: Node) -> int | None:
        if node.type == "parenthesized_expression":
            return self.number(node.named_children[0])
        if node.type == "binary_expression" and len(node.children) == 3:
            left, sign, right = node.children
            return calculate(self.number(left), syntax.source(sign), self.number(right))
        text = syntax.source(node)
        return int(text) if text.isdecimal() else self._term(node).number


def calculate(left: int | None, sign: str, right: int | None) -> int | None:
    if left is None or right is None or sign not in OPERATORS or (sign in "/%" and right == 0):
        return None
    return OPERATORS[sign](left, right)


def _copied(word: Word) -> str:
    """Return the name of the one variable that a word has been copied from, "" for none."""
    piece = word.pieces[0] if len(word.pieces) == 1 else ""
    if isinstance(piece, str) or piece.kind not in (kinds.ENVIRONMENT, kinds.ARGUMENT, kinds.RUN):
        return ""
    name = piece.source[1:].removeprefix("{").removesuffix("}").removesuffix("-").removesuffix(":")
    return name if name.isidentifier() or name.isdecimal() else ""


def _range(text: str) -> list[str]:
    first, _, last = text[1:-1].partition("..")
    if first.isdecimal() and last.isdecimal() and int(first) <= int(last) < MOST_ITEMS:
        return [str(number) for number in range(int(first), int(last) + 1)]
    return [text]
