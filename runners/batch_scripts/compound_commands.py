"""Walks a script's syntax tree in order: branches, loops, pipes and functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count

from . import conditions, syntax
from .command_substitution import printed
from .commands import BRANCH_OF, Command, Content, Scope, Value, hidden
from .simple_commands import SimpleReader, assigned
from .syntax import Node
from .words import ADDRESS, BRANCH, Word, literal

LOOP = "the loop of line"
IN_HEREDOC = ("pipeline", "list", "command")  # behind << on its line
QUOTE = re.compile(r'(\\*)"')  # in a here-document, where no backslash stands for it
MOST_ROUNDS = 20  # of loops within loops that are unrolled


def read_commands(text: str, scope: Scope, offset: int = 0, marks: Sequence[str] = ()) -> Content:
    """Return a script's commands; `marks` begin lines that are directives."""
    reader = _Reader(scope, offset, tuple(marks))
    reader.lines = text.split("\n")
    if folder := scope.given.get("PWD"):
        reader.change(literal(folder))
    root = syntax.parse(text)
    reader.content.faults += [line + offset for line in syntax.faults(root)]
    reader.walk(root)
    return reader.content


def _condition(node: Node) -> Sequence[Node]:
    """Return what stands between an `if` or `elif` and its `then`."""
    then = next((n for n, child in enumerate(node.children) if child.type == "then"), 0)
    return node.children[1:then]


class _Reader(SimpleReader):
    """Reads all commands of a text, in their order."""

    lines: list[str]

    def read_list(self, node: Node) -> None:
        left, sign, right = node.children[0], syntax.source(node.children[1]), node.children[-1]
        self.joined += 1
        self.walk(left)
        if sign == "||" or left.type == "test_command":
            self._branches([(f"line {self._line(left)} ({sign})", [right])])
        else:
            self.walk(right)
        self.joined -= 1

    def read_pipeline(self, node: Node) -> None:
        parts = [child for child in node.children if child.is_named and child.type != "comment"]
        names = [_first(part) for part in parts]
        self.joined += 1
        for place, part in enumerate(parts):
            pipe, state = (*names[place + 1 :], *self.state.pipe), self.state
            words = state.words if part is parts[-1] else ()  # those behind a redirection
            piped = place > 0 and part.type == "command"  # a loop there reads it itself
            source = literal(f"<({names[place - 1]})", self._line(part))
            inputs = (source,) if piped else state.inputs
            with self._with(pipe=pipe, words=words, inputs=inputs):
                self.walk(part)
        self.joined -= 1

    def read_redirected_statement(self, node: Node) -> None:
        inputs, outputs, document, words = list[Word](), list[Word](), None, list[Word]()
        heredocs = (each for each in node.children if each.type == "heredoc_redirect")
        behind = [each for here in heredocs for each in here.children_by_field_name("redirect")]
        for child in [*node.children, *behind]:
            if child.type == "heredoc_redirect":
                self._children(each for each in child.children if each.type in IN_HEREDOC)
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

    def _document(self, node: Node) -> Word | None:
        """Return the text of a here-document, None where its end is not found."""
        start = next(syntax.below(node, "heredoc_start"), node)
        first, mark = start.start_point[0] + 1, syntax.source(start)
        stripped = [line.lstrip("\t") for line in self.lines[first:]]
        if mark.strip("'\"\\") not in stripped:
            return None
        last = first + stripped.index(mark.strip("'\"\\"))
        text = "\n".join(self.lines[first:last])
        lines = enumerate(self.lines[first:last], self.offset + first + 1)
        self.content.embedded += [n for n, each in lines if each.startswith(self.marks)][:1]
        if mark[:1] in "'\"\\":
            return literal(text, self.offset + first + 1)
        quoted = QUOTE.sub(lambda found: "\\\\" * ((len(found[1]) + 1) // 2) + '\\"', text)
        string = next(syntax.below(syntax.parse(f'"{quoted}"'), "string"), None)
        if string is None or string.end_byte != len(quoted.encode()) + 2:
            return None
        self.expander.offset = self.offset + first
        word = self.expander.word(string)
        self.expander.offset = self.offset
        return word

    def read_subshell(self, node: Node) -> None:
        self._subshell(node)

    def _subshell(self, node: Node, **changes: object) -> list[Command]:
        """Read what changes no variable of the shell around it; return its commands."""
        before, state, first = self.scope, self.state, len(self.content.commands)
        ended = self.ended
        self._enter(before.copy())
        with self._with(**changes):
            self._children(node.children)
        self._enter(before)
        self.state, self.ended = state, ended
        return self.content.commands[first:]

    def _substitute(self, node: Node) -> Word:
        own = {"within": "substitution", "words": (), "pipe": (), "background": False}
        commands = self._subshell(node, **own)
        return printed(commands, syntax.source(node), self._line(node), self.scope)

    def read_function_definition(self, node: Node) -> None:
        for body in node.children_by_field_name("body"):
            self.functions[syntax.field(node, "name")] = body

    def _branches(self, branches: Iterable[tuple[str, Sequence[Node]]]) -> None:
        """Read what runs under conditions; variables that it sets are unknown after it."""
        before, changed = dict(self.scope.variables), dict[str, Value]()
        for condition, nodes in branches:
            self.scope.variables = dict(before)
            with self._with(conditions=(*self.state.conditions, condition)):
                self._children(nodes)
            now = self.scope.variables.items()
            changed |= {n: hidden(v, n, BRANCH) for n, v in now if not _same(before.get(n), v)}
        self.scope.variables |= changed

    def read_if_statement(self, node: Node) -> None:
        """Read a condition, then its branch that runs, or all that may run."""
        condition = _condition(node)
        with self._with(within="test"):
            self._children(condition)
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
        label, several = f"the condition of line {self._line(node)}", len(branches) > 1
        labels = (f"{label}{BRANCH_OF}{n}" if several else label for n in count(1))
        self._branches(zip(labels, branches))

    read_elif_clause = read_if_statement

    def _evaluate(self, condition: Sequence[Node]) -> bool | None:
        in_loop = any(LOOP in label for label in self.state.conditions)  # other rounds may differ
        return None if in_loop else conditions.evaluate(condition, self.expander)

    def read_case_statement(self, node: Node) -> None:
        items = [child for child in node.children if child.type == "case_item"]
        label = f"the case of line {self._line(node)}{BRANCH_OF}"
        self._branches((f"{label}{self._line(item)}", item.children) for item in items)

    def read_for_statement(self, node: Node) -> None:
        name, nodes = syntax.field(node, "variable"), node.children_by_field_name("value")
        values = [word for child in nodes for word in self.expander.words(child)]
        before, rounds = self.rounds, self.rounds * len(values)
        if not 0 < rounds <= MOST_ROUNDS or any(word.unknown for word in values):
            address = any(word.has(ADDRESS) for word in values)
            self._loop(node, [name], ADDRESS if address else BRANCH)
            return
        self.rounds = rounds
        for value in values:
            self.scope.variables[name] = value
            with self._with(loops=self.state.loops or self._line(node)):
                self._children(node.children_by_field_name("body"))
        self.rounds = before

    def read_c_style_for_statement(self, node: Node) -> None:
        starts = node.children_by_field_name("initializer")
        self._loop(node, [syntax.field(start, "name") for start in starts])

    def read_while_statement(self, node: Node) -> None:
        commands = node.children_by_field_name("condition")
        sets = [each for each in commands if _first(each) in ("read", "getopts")]
        names = [syntax.source(word) for command in sets for word in command.children[1:]]
        self._loop(node, [name for name in names if name.isidentifier()])

    def _loop(self, node: Node, names: Sequence[str], kind: str = BRANCH) -> None:
        line, body = self._line(node), node.children_by_field_name("body")
        for name in assigned(body) - {*names}:  # what the round before left
            before = hidden(self.scope.variables.get(name, literal("")), name, BRANCH)
            pieces = tuple(replace(piece, line=line) for piece in before.unknown)
            self.scope.variables[name] = Word(pieces, line)
        self._hide(names, line, kind)
        with self._with(loops=self.state.loops or line):
            self._branches([(f"{LOOP} {line}", body)])


def _first(node: Node) -> str:
    name = next(syntax.below(node, "command_name"), None)
    return syntax.source(name).rpartition("/")[2] if name else node.type


def _same(before: Value | None, value: Value) -> bool:
    """Whether a variable has the value of before, perhaps from another line."""
    if isinstance(before, Word) and isinstance(value, Word):
        return (before.known is not None and before.known == value.known) or before == value
    return before == value
