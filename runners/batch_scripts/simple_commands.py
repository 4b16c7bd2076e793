"""Walks a script's syntax tree: simple commands, variables, and what changes the shell itself."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from . import syntax
from .commands import Assignment, Command, Content, Scope, hidden
from .expansion import Expander
from .programs import NAMES
from .words import BRANCH, COMMAND, Word, join, literal, made

if TYPE_CHECKING:
    from tree_sitter import Node

HARMLESS = tuple(NAMES["harmless"])
FACTS = ("SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE")
KEYWORDS = ("then", "elif", "else", "fi", "do", "done", "esac", "in", "}")
MOST_DEPTH = 8  # of functions within functions
MOST_CALLS = 100


class Simple:
    """Reads simple commands; what is compound, and $(...), is up to a class above."""

    _substitute: Callable[[Node], Word]

    def __init__(self, scope: Scope, offset: int, marks: tuple[str, ...]) -> None:
        self.content, self.marks, self.offset = Content(), marks, offset
        self.functions: dict[str, Node] = {}
        facts = {name: scope.given[name] for name in FACTS if name in scope.given}
        self.state = Command((), 0, facts=facts)  # what the next command takes over
        self.depth, self.calls, self.rounds = 0, 0, 1  # rounds: of the loops around
        self.pushed: list[Word | None] = []  # folders of pushd
        self._enter(scope)

    def _enter(self, scope: Scope) -> None:
        self.scope = scope
        self.expander = Expander(scope, self._substitute, self.content.octal.append)
        self.expander.offset = self.offset

    def walk(self, node: Node) -> None:
        """Read a node by the method of its type, or what is below it."""
        method = getattr(self, f"read_{node.type}", None) if node.is_named else None
        if method:
            method(node)
        else:
            self._children(node.children)

    def _line(self, node: Node) -> int:
        return syntax.line(node) + self.offset

    def _children(self, nodes: Iterable[Node]) -> None:
        nodes = list(nodes)
        for node, following in zip(nodes, [*nodes[1:], None]):
            behind = following is not None and syntax.source(following) == "&"
            with self._with(background=self.state.background or behind):
                self.walk(node)

    @contextmanager
    def _with(self, **changes: object) -> Iterator[None]:
        """Read with other surroundings; cd and pipefail within hold on."""
        before = self.state
        self.state = replace(before, **changes)  # type: ignore[arg-type]
        yield
        kept = {name: getattr(self.state, name) for name in ("folder", "pipefail", "functions")}
        self.state = replace(before, **kept)

    def read_comment(self, node: Node) -> None:
        self.content.comments[self._line(node)] = syntax.source(node)

    def read_command(self, node: Node) -> None:
        given, words, end = {}, list[Word](), -1
        for child in node.children:
            if child.type == "variable_assignment":
                name, value = self._assigned(child)
                given[name] = value
            elif child.type == "command_name":
                words += self.expander.words(child.children[0])
            elif child.type not in ("file_redirect", "herestring_redirect"):
                more = self.expander.words(child) if child.is_named else []
                if child.start_byte == end and words and more:
                    # NOTE: of a/`b`/c the grammar (0.25.1) makes two words.
                    first, *more = more
                    words[-1] = made((*words[-1].pieces, *first.pieces), words[-1].line)
                words, end = [*words, *more], child.end_byte
        words += self.state.words
        before = [child for child in node.children if child.type == "file_redirect"]  # < a wc -l
        reads = [each.children[-1] for each in before if each.children[0].type == "<"]
        inputs = (*self.state.inputs, *map(self.expander.word, reads))
        if any(child.type == "herestring_redirect" for child in node.children):
            inputs = (literal("<<", self._line(node)),)
        with self._with(inputs=inputs, words=()):
            if words:
                self._run(tuple(words), node, given)

    def _run(self, words: tuple[Word, ...], node: Node, given: Mapping[str, Word]) -> None:
        line, names = self._line(node), self.scope.exported
        items = ((n, v) for n, v in self.scope.variables.items() if n in names)
        exports = {n: v for n, v in items if isinstance(v, Word)}
        command = replace(
            self.state, words=words, line=line, given=given, exports=exports,
            source=syntax.source(node),
        )  # fmt: skip
        if words[0].text in KEYWORDS:
            self._broken(command)
            return
        body = self.functions.get(words[0].text) if words[0].text != "module" else None
        if body is not None and self.depth < MOST_DEPTH and self.calls < MOST_CALLS:
            self._call(body, words[1:])
            return
        self.content.commands.append(command)
        self._obey(command)

    def _broken(self, command: Command) -> None:
        """Note a keyword that the grammar takes for a command; what is set near it is unknown.

        NOTE: it does so (0.25.1) for `then A=1 B=2` with `elif` or `else` on the next line.
        """
        self.content.faults.append(command.line)
        parts = [word.text.partition("=") for word in command.arguments]
        names = [*command.given, *(name for name, equals, _ in parts if equals)]
        for name in names:
            self.scope.variables[name] = hidden(literal("", command.line), name, BRANCH)

    def _call(self, body: Node, arguments: Sequence[Word]) -> None:
        before, self.scope.arguments = self.scope.arguments, list(arguments)
        self.depth += 1
        self.calls += 1
        self.walk(body)
        self.depth -= 1
        self.scope.arguments = before

    def _obey(self, command: Command) -> None:
        options = [word.text for word in command.arguments]
        if command.name in ("cd", "pushd") and command.arguments:
            target, above = command.arguments[-1], self.state.folder
            self.pushed += [above] if command.name == "pushd" else []
            folder = target
            if above is not None and not target.text.startswith(("/", "$", "~")):
                folder = join((above, target), "/", target.line)
            known = folder.known and literal(posixpath.normpath(folder.text), target.line)
            self._change(known or folder)
        elif command.name == "popd" and self.pushed:
            self._change(self.pushed.pop())
        elif command.name == "set" and "pipefail" in options:
            self.state = replace(self.state, pipefail="+o" not in options)
        elif command.name in ("source", ".") and command.arguments:
            harmless = command.arguments[0].text.endswith(HARMLESS)
            self.scope.sourced = self.scope.sourced or not harmless
        elif command.name == "shift" and self.scope.arguments:
            self.scope.arguments = self.scope.arguments[1:]
        elif command.name == "read" and command.document and "-d" in options:
            self._assign(options[-1], command.document)
        elif command.name in ("read", "mapfile", "readarray"):
            self._hide([each for each in options if each.isidentifier()], command.line)
        elif command.name in ("let", "getopts"):
            for option in options if command.name == "let" else ():
                self._sums(syntax.parse(f"(({option}))"), command.line)
            self._hide(options[1:2] if command.name == "getopts" else (), command.line)

    def _sums(self, node: Node, line: int) -> None:
        """Follow the assignments of an arithmetic expression: n = 1, n += 1, n++."""
        kinds = ("binary_expression", "postfix_expression", "unary_expression")
        for each in filter(_assigns, syntax.below(node, *kinds)):
            name = next(syntax.below(each, "variable_name", "word"), each)
            plain = len(each.children) == 3 and syntax.source(each.children[1]) == "="
            number = self.expander.number(each.children[2]) if plain else None
            value = literal("" if number is None else str(number), line)
            self._assign(syntax.source(name), value, hide=number is None)

    def _change(self, folder: Word | None) -> None:
        self.state = replace(self.state, folder=folder)
        self.scope.variables.pop("PWD", None)
        self.scope.variables |= {"PWD": folder} if folder else {}

    def read_compound_statement(self, node: Node) -> None:
        """Read { ...; }, or ((...))."""
        if syntax.source(node).startswith("(("):
            self._sums(node, self._line(node))
        else:
            self._children(node.children)

    def _hide(self, names: Sequence[str], line: int) -> None:
        for name in names:
            self._assign(name, literal("", line), hide=True)

    def read_variable_assignment(self, node: Node) -> None:
        name, value = self._assigned(node)
        if name.startswith("-"):  # NOTE: the grammar (0.25.1) takes --name=value for an assignment
            self._run((made((f"{name}=", *value.pieces), value.line),), node, {})
            return
        self.content.assignments.append(Assignment(name, value, self._line(node)))

    def _assigned(self, node: Node) -> tuple[str, Word]:
        """Assign a variable; return its name and value, of an array all items as one word."""
        target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        line = self._line(node)
        name = syntax.source(target) if target else ""
        adds = any(child.type == "+=" for child in node.children)
        before = self.scope.variables.get(name)
        if value is not None and value.type == "array":
            items = self.expander.array(value)
            if adds and before is not None:
                items = (*(before if isinstance(before, tuple) else (before,)), *items)
            self.scope.variables[name] = items
            return name, join(items, " ", line)
        word = self.expander.word(value, line)
        if adds and isinstance(before, Word):
            word = made((*before.pieces, *word.pieces), line)
        if node.parent is None or node.parent.type != "command":
            self._item(name, word)
        return name, replace(word, line=line)

    def _item(self, target: str, value: Word) -> None:
        """Assign NAME or NAME[INDEX], which is known where it is the next item of a list."""
        name, _, index = target.partition("[")
        items = self.scope.variables.get(name, ())
        if index and isinstance(items, tuple) and index == f"{len(items)}]":
            self.scope.variables[name] = (*items, value)
        else:
            self._assign(name, value, hide=bool(index))

    def _assign(self, name: str, value: Word, hide: bool = False) -> None:
        self.scope.variables[name] = hidden(value, name, COMMAND) if hide else value

    def read_declaration_command(self, node: Node) -> None:
        texts = [syntax.source(child) for child in node.children]
        flags = "".join(text for text in texts[1:] if text.startswith("-"))
        exports = texts[0] == "export" or "x" in flags
        for child in node.children:
            name = syntax.source(child)
            if child.type in ("string", "raw_string"):  # export "NAME=VALUE", or "NAME"
                first, *rest = self.expander.word(child).split("=", 1)
                name = first.text
                for value in rest if name.isidentifier() else ():
                    self._assign(name, value)
                    self.content.assignments.append(Assignment(name, value, self._line(node)))
            elif child.type == "variable_assignment":
                name, value = self._assigned(child)
                self.content.assignments.append(Assignment(name, value, self._line(node)))
            elif child.type != "variable_name":
                self._exported(child) if exports else None
                continue
            if exports and name in self.functions:
                body = self.functions[name]
                text = literal(syntax.source(body.parent or body), self._line(body))
                self.state = replace(self.state, functions=(*self.state.functions, text))
            elif exports:
                self.scope.exported.add(name)

    def _exported(self, node: Node) -> None:
        """Read `export $VARIABLES`; what $(...) prints may set any variable."""
        expands = node.type in ("simple_expansion", "expansion", "command_substitution")
        for word in self.expander.words(node) if expands else ():
            name, *value = word.split("=", 1)
            if value and not name.unknown:
                self._assign(name.text, value[0])
                self.scope.exported.add(name.text)
                continue
            self.scope.sourced = True
            words, line = (literal("export"), word), self._line(node)
            self.content.commands.append(replace(self.state, words=words, line=line))

    def read_unset_command(self, node: Node) -> None:
        words = [literal(syntax.source(child), self._line(node)) for child in node.children]
        for word in words[1:]:
            self.scope.variables.pop(word.text, None)
            self.scope.exported.discard(word.text)
        self.content.commands.append(replace(self.state, words=tuple(words), line=self._line(node)))

    def read_test_command(self, node: Node) -> None:
        for child in syntax.below(node, "command_substitution"):
            self._substitute(child)


def _assigns(node: Node) -> bool:
    """Whether an arithmetic expression sets a variable, as `n = 1`, `n += 1` and `n++` do."""
    signs = [syntax.source(child) for child in node.children if not child.is_named]
    compares = ("==", "!=", "<=", ">=")
    return any(
        sign in ("++", "--") or (sign[-1:] == "=" and sign not in compares) for sign in signs
    )
