"""Walks a script's syntax tree in order: commands with their words, variables and surroundings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from . import grammar
from .expand import Expander, Scope, Value, hidden
from .substitute import printed
from .words import BRANCH, COMMAND, Word, join, literal, made

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_ROUNDS = 50  # of a loop that is unrolled
# Files that set no variables of the script's: those that each login reads, and environments.
HARMLESS = (
    *("bashrc", "profile", "conda.sh", "mamba.sh", "activate", "/init/bash", "/init/sh"),
    *("lmod.sh", "modules.sh"),
)
KEYWORDS = ("then", "elif", "else", "fi", "do", "done", "esac", "in", "}")
MOST_CALLS = 8  # of functions within functions


@dataclass(frozen=True)
class Command:
    """One simple command, with its words expanded and what holds where it stands.

    `given` are the assignments before it, `exports` the exported variables, `folder` that of the
    last cd, None for the one in which the script began. `conditions` say what decides whether it
    runs. `pipe` are the commands that read its output, `inputs` its redirected files. `within` is
    "substitution" for one in $(...), "test" for the condition of an `if`.
    """

    words: tuple[Word, ...]
    line: int
    given: Mapping[str, Word] = field(default_factory=dict)
    exports: Mapping[str, Word] = field(default_factory=dict)
    folder: Word | None = None
    conditions: tuple[str, ...] = ()
    loops: int = 0
    pipe: tuple[str, ...] = ()
    outputs: tuple[Word, ...] = ()
    inputs: tuple[Word, ...] = ()
    background: bool = False
    pipefail: bool = False
    within: str = ""

    @property
    def name(self) -> str:
        return self.words[0].text.rpartition("/")[2] if self.words else ""

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @property
    def arguments(self) -> tuple[Word, ...]:
        return self.words[1:]


@dataclass(frozen=True)
class Assignment:
    name: str
    value: Word
    line: int


@dataclass
class Content:
    """What a script does, in order; `octal` are the lines of numbers that may begin with 0.

    `faults` are lines that the grammar does not know, `embedded` those of directives in
    here-documents, and `comments` all comments by line.
    """

    commands: list[Command] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    comments: dict[int, str] = field(default_factory=dict)
    octal: list[int] = field(default_factory=list)
    faults: list[int] = field(default_factory=list)
    embedded: list[int] = field(default_factory=list)


def read(text: str, scope: Scope, offset: int = 0, marks: Sequence[str] = ()) -> Content:
    """Return a script's commands; `marks` begin lines that are directives."""
    reader = _Reader(scope, offset, tuple(marks))
    reader.walk(grammar.parse(text))
    return reader.content


class _Reader:
    def __init__(self, scope: Scope, offset: int, marks: tuple[str, ...]) -> None:
        self.content, self.marks, self.offset = Content(), marks, offset
        self.functions: dict[str, Node] = {}
        self.state = Command((), 0)  # what the next command takes over
        self.calls = 0
        self._enter(scope)

    def _enter(self, scope: Scope) -> None:
        self.scope = scope
        self.expander = Expander(scope, self._substitute, self.content.octal.append)
        self.expander.offset = self.offset

    def walk(self, node: Node) -> None:
        """Read a node by the method of its type, or what is below it."""
        method = getattr(self, f"read_{node.type}", None) if node.is_named else None
        if node.is_error or node.is_missing:
            self.content.faults.append(self._line(node))
        if method:
            method(node)
        else:
            self._children(node.children)

    def _line(self, node: Node) -> int:
        return grammar.line(node) + self.offset

    def _children(self, nodes: Iterable[Node]) -> None:
        nodes = list(nodes)
        for node, following in zip(nodes, [*nodes[1:], None]):
            behind = following is not None and grammar.source(following) == "&"
            with self._with(background=self.state.background or behind):
                self.walk(node)

    @contextmanager
    def _with(self, **changes: object) -> Iterator[None]:
        """Read with other surroundings; cd and pipefail within hold on."""
        before = self.state
        self.state = replace(before, **changes)  # type: ignore[arg-type]
        yield
        kept = {"folder": self.state.folder, "pipefail": self.state.pipefail}
        self.state = replace(before, **kept)  # type: ignore[arg-type]

    def read_comment(self, node: Node) -> None:
        self.content.comments[self._line(node)] = grammar.source(node)

    # Simple commands.

    def read_command(self, node: Node) -> None:
        given, words = {}, list[Word]()
        for child in node.children:
            if child.type == "variable_assignment":
                name, value = self._assigned(child)
                given[name] = value
            elif child.type == "command_name":
                words += self.expander.words(child.children[0])
            elif child.type not in ("file_redirect", "herestring_redirect"):
                words += self.expander.words(child) if child.is_named else []
        if words:
            self._run(tuple(words), self._line(node), given)

    def _run(self, words: tuple[Word, ...], line: int, given: Mapping[str, Word]) -> None:
        variables = self.scope.variables
        exports = {
            name: value
            for name, value in variables.items()
            if name in self.scope.exported and isinstance(value, Word)
        }
        command = replace(self.state, words=words, line=line, given=given, exports=exports)
        if words[0].text in KEYWORDS:
            self._broken(command)
            return
        body = self.functions.get(words[0].text)
        if body is not None and self.calls < MOST_CALLS:
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
        self.calls += 1
        self.walk(body)
        self.calls -= 1
        self.scope.arguments = before

    def _obey(self, command: Command) -> None:
        """Carry out what changes the shell itself."""
        options = [word.text for word in command.arguments]
        if command.name == "cd" and command.arguments:
            target = command.arguments[-1]
            above, folder = self.state.folder, target
            if above is not None and not target.text.startswith(("/", "$", "~")):
                folder = join((above, target), "/", target.line)
            self.state = replace(self.state, folder=folder)
            self.scope.variables["PWD"] = folder
        elif command.name == "set" and "pipefail" in options:
            self.state = replace(self.state, pipefail="+o" not in options)
        elif command.name in ("source", ".") and command.arguments:
            harmless = command.arguments[0].text.endswith(HARMLESS)
            self.scope.sourced = self.scope.sourced or not harmless
        elif command.name == "shift" and self.scope.arguments:
            self.scope.arguments = self.scope.arguments[1:]
        elif command.name in ("read", "mapfile", "readarray") and not command.inputs:
            for option in options[-1:]:
                self._assign(option, literal("", command.line), hide=True)

    def read_variable_assignment(self, node: Node) -> None:
        name, value = self._assigned(node)
        self.content.assignments.append(Assignment(name, value, self._line(node)))

    def _assigned(self, node: Node) -> tuple[str, Word]:
        """Assign a variable; return its name and value, of an array all items as one word."""
        target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        line = self._line(node)
        name = grammar.source(target) if target else ""
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
            if "[" in name:
                name = name.partition("[")[0]
                self._assign(name, word, hide=True)
            else:
                self._assign(name, word)
        return name, replace(word, line=line)

    def _assign(self, name: str, value: Word, hide: bool = False) -> None:
        self.scope.variables[name] = hidden(value, name, COMMAND) if hide else value

    def read_declaration_command(self, node: Node) -> None:
        """Read export, declare, local, readonly and typeset."""
        texts = [grammar.source(child) for child in node.children]
        exports = texts[0] == "export" or any(
            text.startswith("-") and "x" in text for text in texts[1:]
        )
        for child in node.children:
            name = grammar.source(child)
            if child.type == "variable_assignment":
                name, value = self._assigned(child)
                self.content.assignments.append(Assignment(name, value, self._line(node)))
            elif child.type != "variable_name":
                continue
            if exports:
                self.scope.exported.add(name)

    def read_unset_command(self, node: Node) -> None:
        words = [literal(grammar.source(child), self._line(node)) for child in node.children]
        for word in words[1:]:
            self.scope.variables.pop(word.text, None)
            self.scope.exported.discard(word.text)
        self.content.commands.append(replace(self.state, words=tuple(words), line=self._line(node)))

    def read_test_command(self, node: Node) -> None:
        for child in grammar.below(node, "command_substitution"):
            self._substitute(child)

    # Compound commands.

    def read_list(self, node: Node) -> None:
        left, sign, right = node.children[0], grammar.source(node.children[1]), node.children[-1]
        self.walk(left)
        depends = sign == "||" or left.type == "test_command"
        label = f"line {self._line(left)} ({sign})"
        with self._branch(label if depends else ""):
            self.walk(right)

    def read_pipeline(self, node: Node) -> None:
        parts = [child for child in node.children if child.is_named and child.type != "comment"]
        names = [_first(part) for part in parts]
        for place, part in enumerate(parts):
            with self._with(pipe=(*names[place + 1 :], *self.state.pipe)):
                self.walk(part)

    def read_redirected_statement(self, node: Node) -> None:
        inputs, outputs = list[Word](), list[Word]()
        for child in node.children:
            if child.type == "heredoc_redirect":
                self._heredoc(child)
            elif child.type == "file_redirect":
                target = child.child_by_field_name("destination")
                reads = any(part.type == "<" for part in child.children)
                if target is not None and target.type == "number":
                    continue  # 2>&1
                word = self.expander.word(target, self._line(child))
                (inputs if reads else outputs).append(word)
        body = node.child_by_field_name("body")
        with self._with(inputs=tuple(inputs), outputs=tuple(outputs)):
            if body is not None:
                self.walk(body)

    def _heredoc(self, node: Node) -> None:
        """Note directives in a here-document, and read what follows its first line's `<<`."""
        for body in grammar.below(node, "heredoc_body"):
            for place, text in enumerate(grammar.source(body).split("\n")):
                if text.startswith(self.marks):
                    self.content.embedded.append(self._line(body) + place)
        for child in node.children:
            if child.type in ("pipeline", "list", "command"):
                self.walk(child)

    def read_subshell(self, node: Node) -> None:
        before, state = self.scope, self.state
        self._enter(before.copy())
        self._children(node.children)
        self._enter(before)
        self.state = state

    def read_function_definition(self, node: Node) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.functions[grammar.source(name)] = body

    @contextmanager
    def _branch(self, label: str) -> Iterator[None]:
        """Read what only runs if a condition holds; variables set there are unknown after it."""
        if not label:
            yield
            return
        before = dict(self.scope.variables)
        with self._with(conditions=(*self.state.conditions, label)):
            yield
        for name, value in self.scope.variables.items():
            if before.get(name) != value:
                self.scope.variables[name] = hidden(value, name, BRANCH)

    def read_if_statement(self, node: Node) -> None:
        self._if(node, f"the condition of line {self._line(node)}")

    def read_elif_clause(self, node: Node) -> None:
        self._if(node, f"the condition of line {self._line(node)}")

    def _if(self, node: Node, label: str) -> None:
        """Read a condition and its branches, each with the variables from before them."""
        then = next((n for n, child in enumerate(node.children) if child.type == "then"), 0)
        with self._with(within="test"):
            self._children(node.children[1:then])
        before, changed = dict(self.scope.variables), dict[str, Value]()
        branches: list[list[Node]] = [[]]
        for child in node.children[then:]:
            if child.type in ("elif_clause", "else_clause"):
                branches.append([])
            branches[-1].append(child)
        with self._with(conditions=(*self.state.conditions, label)):
            for nodes in branches:
                self.scope.variables.clear()
                self.scope.variables.update(before)
                self._children(nodes)
                now = self.scope.variables.items()
                changed.update({name: v for name, v in now if before.get(name) != v})
        for name, value in changed.items():
            self.scope.variables[name] = hidden(value, name, BRANCH)

    def read_case_statement(self, node: Node) -> None:
        for child in node.children:
            if child.type == "case_item":
                with self._branch(f"the case of line {self._line(child)}"):
                    self._children(child.children)

    def read_for_statement(self, node: Node) -> None:
        variable = node.child_by_field_name("variable")
        name = grammar.source(variable) if variable else ""
        values = [
            word
            for child in node.children_by_field_name("value")
            for word in self.expander.words(child)
        ]
        body, line = node.child_by_field_name("body"), self._line(node)
        if body is None:
            return
        rounds = [word.known for word in values]
        if values and None not in rounds and len(values) <= MOST_ROUNDS:
            for value in values:
                self.scope.variables[name] = value
                with self._with(loops=self.state.loops or line):
                    self.walk(body)
            return
        self._loop(body, [name], line)

    def read_c_style_for_statement(self, node: Node) -> None:
        start = node.child_by_field_name("initializer")
        name = start.child_by_field_name("name") if start else None
        body = node.child_by_field_name("body")
        if body is not None:
            self._loop(body, [grammar.source(name)] if name else [], self._line(node))

    def read_while_statement(self, node: Node) -> None:
        names = [
            grammar.source(word)
            for command in node.children_by_field_name("condition")
            if command.type == "command" and _first(command) == "read"
            for word in command.children[1:]
            if not grammar.source(word).startswith("-")
        ]
        body = node.child_by_field_name("body")
        if body is not None:
            self._loop(body, names, self._line(node))

    def _loop(self, body: Node, names: Sequence[str], line: int) -> None:
        """Read a loop whose rounds are not known once."""
        for name in names:
            self.scope.variables[name] = hidden(literal("", line), name, BRANCH)
        with self._branch(f"the loop of line {line}"), self._with(loops=self.state.loops or line):
            self.walk(body)

    def _substitute(self, node: Node) -> Word:
        """Read $(...) and return what it prints, as far as that is known."""
        first = len(self.content.commands)
        before, state = self.scope, self.state
        self._enter(before.copy())
        self.state = replace(state, within="substitution", pipe=(), background=False)
        self._children(node.children)
        self._enter(before)
        self.state = state
        commands = self.content.commands[first:]
        return printed(commands, grammar.source(node), self._line(node), self.scope)


def _first(node: Node) -> str:
    """Return the name of the first command below a node."""
    name = next(grammar.below(node, "command_name"), None)
    return grammar.source(name).rpartition("/")[2] if name else node.type
