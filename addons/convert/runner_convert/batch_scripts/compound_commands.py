"""Walks a script's syntax tree in order: branches, loops, pipes and functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Optional

from . import conditions, syntax
from .command_substitution import printed
from .commands import (
    BRANCH_OF,
    Content,
    Scope,
    Surroundings,
    Value,
    one_of_folders,
    one_of_several,
    undecided,
)
from .simple_commands import FACTS, SimpleReader
from .syntax import Node
from .words import ADDRESS, BRANCH, Word, literal

LOOP = "the loop of line"
IN_HEREDOC = ("pipeline", "list", "command")  # behind << on its line
QUOTE = re.compile(r'(?<!\\)(\\*)"')  # in a here-document, where no backslash stands for it
MOST_STANDARD = 2  # descriptor of the errors
MOST_ROUNDS = 20  # of loops within loops that are unrolled


def read_commands(text: str, scope: Scope, offset: int = 0, marks: Sequence[str] = ()) -> Content:
    """Return a script's commands; `marks` begin lines that are directives."""
    reader = _Reader(text, scope, offset, tuple(marks))
    if folder := scope.given.get("PWD"):
        scope.change(literal(folder))
    root = syntax.parse(text)
    reader.content.faults += [line + offset for line in syntax.faults(root)]
    facts = {name: scope.given[name] for name in FACTS if name in scope.given}
    reader.walk(root, Surroundings(facts=facts))
    return reader.content


def _condition(node: Node) -> Sequence[Node]:
    """Return what stands between an `if` or `elif` and its `then`."""
    then = next((n for n, child in enumerate(node.children) if child.type == "then"), 0)
    return node.children[1:then]


class _Reader(SimpleReader):
    """Reads all commands of a text, in their order."""

    def read_list(self, node: Node, around: Surroundings) -> None:
        left, sign, right = node.children[0], syntax.source(node.children[1]), node.children[-1]
        around = replace(around, joined=True)
        self.walk(left, around)
        if sign == "||" or left.type == "test_command":
            self._branches([(f"line {self._line(left)} ({sign})", [right])], around)
        else:
            self.walk(right, around)

    def read_pipeline(self, node: Node, around: Surroundings) -> None:
        parts = [child for child in node.children if child.is_named and child.type != "comment"]
        names, around = [_first(part) for part in parts], replace(around, joined=True)
        for place, part in enumerate(parts):
            pipe = (*names[place + 1 :], *around.pipe)
            behind = around.behind if part is parts[-1] else ()
            piped = place > 0 and part.type == "command"  # a loop there reads it itself
            source = literal(f"<({names[place - 1]})", self._line(part))
            inputs = (source,) if piped else around.inputs
            self.walk(part, replace(around, pipe=pipe, behind=behind, inputs=inputs))

    def read_redirected_statement(self, node: Node, around: Surroundings) -> None:
        inputs, outputs, errors = list[Word](), list[Word](), list[Word]()
        document, behind = None, list[Word]()
        heredocs = (child for child in node.children if child.type == "heredoc_redirect")
        more = [part for heredoc in heredocs for part in heredoc.children_by_field_name("redirect")]
        expander = self._expander(around)
        for child in [*node.children, *more]:
            if child.type == "heredoc_redirect":
                self._children((n for n in child.children if n.type in IN_HEREDOC), around)
                inputs.append(literal("<<", self._line(child)))
                document = self._document(child, around)
            elif child.type == "file_redirect":
                targets = child.children_by_field_name("destination")
                target = targets[0] if targets else None
                behind += [word for part in targets[1:] for word in expander.words(part)]
                reads = any(part.type == "<" for part in child.children)
                if target is not None and target.type == "number":
                    continue  # 2>&1
                descriptor = syntax.source(child.children[0])
                if descriptor.isdecimal() and int(descriptor) > MOST_STANDARD:
                    continue  # a lock, or what the script writes itself
                word = self._target(target, child, around)
                (inputs if reads else outputs).append(word)
                errors += [word] if descriptor == "2" and not reads else []
        body = node.child_by_field_name("body")
        if body is not None:  # a > b c: the words behind a redirection
            around = replace(around, inputs=tuple(inputs), outputs=tuple(outputs))
            around = replace(around, errors=tuple(errors), behind=tuple(behind))
            self.walk(body, replace(around, document=document))

    def _target(self, target: Node | None, redirect: Node, around: Surroundings) -> Word:
        """Return the file of a redirection; of >(tee FILE) that of tee."""
        if target is not None and target.type == "process_substitution":
            inside = replace(around, within="substitution", behind=(), pipe=(), background=False)
            commands = self._subshell(target.children, inside)
            tees = [
                word for command in commands if command.name == "tee" for word in command.arguments
            ]
            if files := [word for word in tees if word.start[:1] != "-"]:
                return files[0]
        return self._expander(around).word(target, self._line(redirect))

    def _document(self, node: Node, around: Surroundings) -> Word | None:
        """Return the text of a here-document, None where its end is not found."""
        start = next(syntax.below(node, "heredoc_start"), node)
        first, mark = start.start_point[0] + 1, syntax.source(start)
        stripped = [line.lstrip("\t") for line in self.lines[first:]]
        if mark.strip("'\"\\") not in stripped:
            return None
        last = first + stripped.index(mark.strip("'\"\\"))
        text = "\n".join(self.lines[first:last])
        lines = enumerate(self.lines[first:last], self.offset + first + 1)
        self.content.embedded += [n for n, line in lines if line.startswith(self.marks)][:1]
        if mark[:1] in "'\"\\":
            return literal(text, self.offset + first + 1)
        quoted = QUOTE.sub(lambda found: "\\\\" * ((len(found[1]) + 1) // 2) + '\\"', text)
        string = next(syntax.below(syntax.parse(f'"{quoted}"'), "string"), None)
        if string is None or string.end_byte != len(quoted.encode()) + 2:
            return None
        return self._expander(around, first).word(string)

    def read_subshell(self, node: Node, around: Surroundings) -> None:
        self._subshell(node.children, around)

    def substitute(self, node: Node, around: Surroundings) -> Word:
        inside = replace(around, within="substitution", behind=(), pipe=(), background=False)
        commands = self._subshell(node.children, inside)
        return printed(commands, syntax.source(node), self._line(node), self.scope)

    def read_function_definition(self, node: Node, around: Surroundings) -> None:
        for body in node.children_by_field_name("body"):
            self.functions[syntax.field(node, "name")] = body

    def _branches(
        self, branches: Iterable[tuple[str, Sequence[Node]]], around: Surroundings
    ) -> None:
        """Read what runs under conditions; variables that it sets are unknown after it."""
        before, values = dict(self.scope.variables), dict[str, list[Value]]()
        folder, exported = self.scope.folder, set(self.scope.exported)
        folders, one_runs = list[Optional[Word]](), False
        for condition, nodes in branches:
            self.scope.variables, self.scope.folder = dict(before), folder
            one_runs = one_runs or (bool(nodes) and nodes[0].type == "else_clause")
            under = (*around.conditions, condition)
            self._children(nodes, replace(around, conditions=under))
            for name, value in self.scope.variables.items():
                if not _same(before.get(name), value):
                    values.setdefault(name, []).append(value)
            folders.append(self.scope.folder)
            for name in before.keys() - self.scope.variables.keys():
                kept = before[name]  # until `unset NAME` in this branch
                line = kept.line if isinstance(kept, Word) else 0
                values.setdefault(name, []).append(literal("", line))
            exported |= self.scope.exported
        self.scope.exported = exported
        self.scope.folder = one_of_folders(folders if one_runs else [folder, *folders])
        self.scope.variables |= {n: one_of_several(before.get(n), v, n) for n, v in values.items()}

    def read_if_statement(self, node: Node, around: Surroundings) -> None:
        """Read a condition, then its branch that runs, or all that may run."""
        condition = _condition(node)
        self._children(condition, replace(around, within="test"))
        branches: list[list[Node]] = [[]]
        for child in node.children[len(condition) + 1 :]:
            if child.type in ("elif_clause", "else_clause"):
                branches.append([])
            branches[-1].append(child)
        holds = self._evaluate(condition, around)
        while holds is False:
            del branches[0]
            more = branches and branches[0][0].type == "elif_clause"
            holds = self._evaluate(_condition(branches[0][0]), around) if more else True
        if holds:
            inside = replace(around, chosen=len(self.content.commands))
            self._children(branches[0] if branches else (), inside)
            return
        label, several = f"the condition of line {self._line(node)}", len(branches) > 1
        labels = (f"{label}{BRANCH_OF}{n}" if several else label for n in count(1))
        self._branches(zip(labels, branches), around)

    read_elif_clause = read_if_statement

    def _evaluate(self, condition: Sequence[Node], around: Surroundings) -> bool | None:
        in_loop = any(LOOP in label for label in around.conditions)  # other rounds may differ
        return None if in_loop else conditions.evaluate(condition, self._expander(around))

    def read_case_statement(self, node: Node, around: Surroundings) -> None:
        items = [child for child in node.children if child.type == "case_item"]
        label = f"the case of line {self._line(node)}{BRANCH_OF}"
        self._branches(((f"{label}{self._line(item)}", item.children) for item in items), around)

    def read_for_statement(self, node: Node, around: Surroundings) -> None:
        name, nodes = syntax.field(node, "variable"), node.children_by_field_name("value")
        values = [word for child in nodes for word in self._expander(around).words(child)]
        rounds = around.rounds * len(values)
        if not 0 < rounds <= MOST_ROUNDS or any(word.unknown for word in values):
            address = any(word.has(ADDRESS) for word in values)
            self._loop(node, around, [name], ADDRESS if address else BRANCH)
            return
        within = replace(around, rounds=rounds, loops=around.loops or self._line(node))
        for value in values:
            self.scope.variables[name] = value
            self._children(node.children_by_field_name("body"), within)

    def read_c_style_for_statement(self, node: Node, around: Surroundings) -> None:
        starts = node.children_by_field_name("initializer")
        self._loop(node, around, [syntax.field(start, "name") for start in starts])

    def read_while_statement(self, node: Node, around: Surroundings) -> None:
        commands = node.children_by_field_name("condition")
        self._children(commands, replace(around, within="until"))
        sets = [command for command in commands if _first(command) in ("read", "getopts")]
        names = [syntax.source(word) for command in sets for word in command.children[1:]]
        around = replace(around, inputs=()) if sets else around  # which the loop reads
        self._loop(node, around, [name for name in names if name.isidentifier()])

    def _loop(
        self, node: Node, around: Surroundings, names: Sequence[str], kind: str = BRANCH
    ) -> None:
        line, body = self._line(node), node.children_by_field_name("body")
        for name in syntax.assigned(body) - {*names}:  # what the round before left
            before = undecided(self.scope.variables.get(name, literal("")), name, BRANCH)
            pieces = tuple(replace(piece, line=line) for piece in before.unknown)
            self.scope.variables[name] = Word(pieces, line)
        self._hide(names, line, kind)
        self._branches([(f"{LOOP} {line}", body)], replace(around, loops=around.loops or line))


def _first(node: Node) -> str:
    name = next(syntax.below(node, "command_name"), None)
    return syntax.source(name).rpartition("/")[2] if name else node.type


def _same(before: Value | None, value: Value) -> bool:
    """Whether a variable has the value of before, perhaps from another line."""
    if isinstance(before, Word) and isinstance(value, Word):
        return (before.known is not None and before.known == value.known) or before == value
    return before == value
