"""Walks a script's syntax tree in order: branches, loops, pipes and functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from . import conditions, syntax
from .command_substitution import printed
from .commands import BRANCH_OF, Content, Scope, Value, hidden
from .simple_commands import Simple
from .words import BRANCH, Word, literal

if TYPE_CHECKING:
    from tree_sitter import Node

LOOP = "the loop of line"
MOST_ROUNDS = 20  # of loops within loops that are unrolled


def read_commands(text: str, scope: Scope, offset: int = 0, marks: Sequence[str] = ()) -> Content:
    """Return a script's commands; `marks` begin lines that are directives."""
    reader = _Reader(scope, offset, tuple(marks))
    reader.lines = text.split("\n")
    root = syntax.parse(text)
    reader.content.faults += [line + offset for line in syntax.faults(root)]
    reader.walk(root)
    return reader.content


def _condition(node: Node) -> Sequence[Node]:
    """Return what stands between an `if` or `elif` and its `then`."""
    then = next((n for n, child in enumerate(node.children) if child.type == "then"), 0)
    return node.children[1:then]


class _Reader(Simple):
    lines: list[str]

    def read_list(self, node: Node) -> None:
        left, sign, right = node.children[0], syntax.source(node.children[1]), node.children[-1]
        self.walk(left)
        depends = sign == "||" or left.type == "test_command"
        label = f"line {self._line(left)} ({sign})"
        with self._branch(label if depends else ""):
            self.walk(right)

    def read_pipeline(self, node: Node) -> None:
        parts = [child for child in node.children if child.is_named and child.type != "comment"]
        names = [_first(part) for part in parts]
        for place, part in enumerate(parts):
            pipe, state = (*names[place + 1 :], *self.state.pipe), self.state
            words = state.words if part is parts[-1] else ()  # those behind a redirection
            piped = place > 0 and part.type == "command"  # a loop there reads it itself
            source = literal(f"<({names[place - 1]})", self._line(part))
            inputs = (source,) if piped else state.inputs
            with self._with(pipe=pipe, words=words, inputs=inputs):
                self.walk(part)

    def read_redirected_statement(self, node: Node) -> None:
        inputs, outputs, document, words = list[Word](), list[Word](), None, list[Word]()
        for child in node.children:
            if child.type == "heredoc_redirect":
                self._heredoc(child)
                inputs.append(literal("<<", self._line(child)))
                document = self._document(child)
            elif child.type == "file_redirect":
                targets = child.children_by_field_name("destination")
                target = targets[0] if targets else None
                words += [word for part in targets[1:] for word in self.expander.words(part)]
                reads = any(part.type == "<" for part in child.children)
                if target is not None and target.type == "number":
                    continue  # 2>&1
                word = self.expander.word(target, self._line(child))
                (inputs if reads else outputs).append(word)
        body = node.child_by_field_name("body")
        files = {"inputs": tuple(inputs), "outputs": tuple(outputs), "document": document}
        with self._with(words=tuple(words), **files):  # a > b c: the words behind a redirection
            if body is not None:
                self.walk(body)

    def _heredoc(self, node: Node) -> None:
        for body in syntax.below(node, "heredoc_body"):
            lines = syntax.source(body).split("\n")
            places = (n for n, text in enumerate(lines) if text.startswith(self.marks))
            self.content.embedded += [self._line(body) + place for place in [*places][:1]]
        for child in node.children:
            if child.type in ("pipeline", "list", "command"):
                self.walk(child)

    def _document(self, node: Node) -> Word | None:
        """Return the text of a here-document, None where its end is not found."""
        start = next(syntax.below(node, "heredoc_start"), node)
        first, mark = start.start_point[0] + 1, syntax.source(start)
        stripped = [line.lstrip("\t") for line in self.lines[first:]]
        if mark.strip("'\"\\") not in stripped:
            return None
        last = first + stripped.index(mark.strip("'\"\\"))
        text = "\n".join(self.lines[first:last])
        if mark[:1] in "'\"\\":
            return literal(text, self.offset + first + 1)
        quoted = text.replace('\\"', '\\\\\\"') if '\\"' in text else text.replace('"', '\\"')
        string = next(syntax.below(syntax.parse(f'"{quoted}"'), "string"), None)
        if string is None or string.end_byte != len(quoted.encode()) + 2:
            return None
        self.expander.offset = self.offset + first
        word = self.expander.word(string)
        self.expander.offset = self.offset
        return word

    def read_subshell(self, node: Node) -> None:
        before, state = self.scope, self.state
        self._enter(before.copy())
        self._children(node.children)
        self._enter(before)
        self.state = state

    def read_function_definition(self, node: Node) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.functions[syntax.source(name)] = body

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
            if not _same(before.get(name), value):
                self.scope.variables[name] = hidden(value, name, BRANCH)

    def read_if_statement(self, node: Node) -> None:
        """Read a condition and its branches, each with the variables from before them."""
        label = f"the condition of line {self._line(node)}"
        condition = _condition(node)
        with self._with(within="test"):
            self._children(condition)
        before, changed = dict(self.scope.variables), dict[str, Value]()
        branches: list[list[Node]] = [[]]
        for child in node.children[len(condition) + 1 :]:
            if child.type in ("elif_clause", "else_clause"):
                branches.append([])
            branches[-1].append(child)
        holds = self._evaluate(condition)
        while holds is False:
            del branches[0]
            more = branches and branches[0][0].type == "elif_clause"
            holds = self._evaluate(_condition(branches[0][0])) if more else True
        if holds:
            self._children(branches[0] if branches else ())
            return
        for number, nodes in enumerate(branches, 1):
            self.scope.variables.clear()
            self.scope.variables.update(before)
            branch = f"{label}{BRANCH_OF}{number}" if len(branches) > 1 else label
            with self._with(conditions=(*self.state.conditions, branch)):
                self._children(nodes)
            now = self.scope.variables.items()
            changed.update({n: v for n, v in now if not _same(before.get(n), v)})
        for name, value in changed.items():
            self.scope.variables[name] = hidden(value, name, BRANCH)

    read_elif_clause = read_if_statement

    def _evaluate(self, condition: Sequence[Node]) -> bool | None:
        in_loop = any(LOOP in label for label in self.state.conditions)  # other rounds may differ
        return None if in_loop else conditions.evaluate(condition, self.expander)

    def read_case_statement(self, node: Node) -> None:
        for child in node.children:
            if child.type == "case_item":
                label = f"the case of line {self._line(node)}{BRANCH_OF}{self._line(child)}"
                with self._branch(label):
                    self._children(child.children)

    def read_for_statement(self, node: Node) -> None:
        variable = node.child_by_field_name("variable")
        name = syntax.source(variable) if variable else ""
        nodes = node.children_by_field_name("value")
        values = [word for child in nodes for word in self.expander.words(child)]
        body, line = node.child_by_field_name("body"), self._line(node)
        if body is None:
            return
        rounds = [word.known for word in values]
        before, self.rounds = self.rounds, self.rounds * len(values)
        if values and None not in rounds and self.rounds <= MOST_ROUNDS:
            for value in values:
                self.scope.variables[name] = value
                with self._with(loops=self.state.loops or line):
                    self.walk(body)
            self.rounds = before
            return
        self.rounds = before
        self._loop(body, [name], line)

    def read_c_style_for_statement(self, node: Node) -> None:
        start = node.child_by_field_name("initializer")
        name = start.child_by_field_name("name") if start else None
        if (body := node.child_by_field_name("body")) is not None:
            self._loop(body, [syntax.source(name)] if name else [], self._line(node))

    def read_while_statement(self, node: Node) -> None:
        names = [
            syntax.source(word)
            for command in node.children_by_field_name("condition")
            if command.type == "command" and _first(command) == "read"
            for word in command.children[1:]
            if not syntax.source(word).startswith("-")
        ]
        if (body := node.child_by_field_name("body")) is not None:
            self._loop(body, names, self._line(node))

    def _loop(self, body: Node, names: Sequence[str], line: int) -> None:
        for name in names:
            self.scope.variables[name] = hidden(literal("", line), name, BRANCH)
        with self._branch(f"{LOOP} {line}"), self._with(loops=self.state.loops or line):
            self.walk(body)

    def _substitute(self, node: Node) -> Word:
        first = len(self.content.commands)
        before, state = self.scope, self.state
        self._enter(before.copy())
        self.state = replace(state, within="substitution", words=(), pipe=(), background=False)
        self._children(node.children)
        self._enter(before)
        self.state = state
        commands = self.content.commands[first:]
        return printed(commands, syntax.source(node), self._line(node), self.scope)


def _first(node: Node) -> str:
    name = next(syntax.below(node, "command_name"), None)
    return syntax.source(name).rpartition("/")[2] if name else node.type


def _same(before: Value | None, value: Value) -> bool:
    """Whether a variable has the value of before, perhaps from another line."""
    if isinstance(before, Word) and isinstance(value, Word):
        return (before.known is not None and before.known == value.known) or before == value
    return before == value
