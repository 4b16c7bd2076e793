"""Walks a script's syntax tree: simple commands, variables, and what changes the shell itself."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Optional

from . import syntax
from .commands import Assignment, Command, Content, Scope, Surroundings, Value, undecided
from .expansion import Expander
from .programs import AGENTS, CONTAINERS, HARMLESS, STARTERS, is_python
from .syntax import Node
from .words import BRANCH, COMMAND, Word, changed_folder, compose, join, literal

FACTS = ("SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE")
KEYWORDS = ("then", "elif", "else", "fi", "do", "done", "esac", "in", "}")
DESCRIPTOR = re.compile(r"\{\w+\}")  # of a redirection, as in exec {lock}>file
LOCAL = ("local", "declare", "typeset")
MOST_DEPTH = 8  # of functions within functions
MOST_CALLS = 100


class SimpleReader(ABC):
    """Reads simple commands; what is compound, and $(...), is up to a class above."""

    def __init__(self, text: str, scope: Scope, offset: int, marks: tuple[str, ...]) -> None:
        self.lines, self.scope, self.offset, self.marks = text.split("\n"), scope, offset, marks
        self.functions, self.calls = dict[str, Node](), count()
        self.locals = dict[str, Optional[Value]]()  # of the function, with the values outside
        self.content = Content(noted=scope.noted)

    @abstractmethod
    def substitute(self, node: Node, around: Surroundings) -> Word:
        """Return what $(...) prints."""

    def _expander(self, around: Surroundings, below: int = 0) -> Expander:
        """Return what expands words, `below` lines further down than their nodes tell."""
        octal = self.content.octal.append
        substitute = partial(self.substitute, around=around)
        return Expander(self.scope, substitute, octal, self.offset + below)

    def walk(self, node: Node, around: Surroundings) -> None:
        """Read a node by the method of its type, or what is below it."""
        method = getattr(self, f"read_{node.type}", None) if node.is_named else None
        if method:
            method(node, around)
        else:
            self._children(node.children, around)

    def _line(self, node: Node) -> int:
        return syntax.line(node) + self.offset

    def _children(self, nodes: Iterable[Node], around: Surroundings) -> None:
        nodes = list(nodes)
        for node, following in zip(nodes, [*nodes[1:], None]):
            if following is not None and syntax.source(following) == "&":
                self._subshell([node], replace(around, background=True))
            else:
                self.walk(node, around)

    def _subshell(self, nodes: Iterable[Node], around: Surroundings) -> list[Command]:
        """Read what changes nothing of the shell around it; return its commands."""
        within, first = copy(self), len(self.content.commands)
        within.scope = self.scope.copy()
        within._children(nodes, around)
        return self.content.commands[first:]

    def read_comment(self, node: Node, around: Surroundings) -> None:
        self.content.comments[self._line(node)] = syntax.source(node)

    def read_command(self, node: Node, around: Surroundings) -> None:
        given, words, end, expander = {}, list[Word](), -1, self._expander(around)
        for child in node.children:
            if child.type == "variable_assignment":
                given[syntax.field(child, "name")] = self._assigned(child, around)
            elif child.type == "command_name":
                words += expander.words(child.children[0])
            elif child.type not in ("file_redirect", "herestring_redirect"):
                more = expander.words(child) if child.is_named else []
                if child.start_byte == end and words and more:
                    # NOTE: of a/`b`/c the grammar (0.25.1) makes two words.
                    first, *more = more
                    words[-1] = compose((*words[-1].pieces, *first.pieces), words[-1].line)
                words, end = [*words, *more], child.end_byte
        words += around.behind
        if words and words[0].text == "exec":
            words = [word for word in words if not DESCRIPTOR.fullmatch(word.text)]
        before = [child for child in node.children if child.type == "file_redirect"]  # < a wc -l
        reads = [redirect.children[-1] for redirect in before if redirect.children[0].type == "<"]
        inputs = (*around.inputs, *map(expander.word, reads))
        if any(child.type == "herestring_redirect" for child in node.children):
            inputs = (literal("<<", self._line(node)),)
        if words:
            around = replace(around, inputs=inputs, behind=())
            self._run(tuple(words), node, given, around)

    def _run(
        self, words: tuple[Word, ...], node: Node, given: Mapping[str, Word], around: Surroundings
    ) -> None:
        line, names, source = self._line(node), self.scope.exported, syntax.source(node)
        if self.scope.ended:
            self.content.ended = self.content.ended or line
            return
        items = ((n, v) for n, v in self.scope.variables.items() if n in names)
        exports = {n: v for n, v in items if isinstance(v, Word)}
        command = self._command(
            around, words=words, line=line, given=given, exports=exports, source=source
        )
        if words[0].text in KEYWORDS:
            self._broken(command)
            return
        body = self.functions.get(words[0].text) if words[0].text != "module" else None
        if body is not None and around.depth < MOST_DEPTH and next(self.calls) < MOST_CALLS:
            self._call(body, list(words[1:]), replace(around, depth=around.depth + 1))
            return
        self.content.commands.append(command)
        self._obey(command, around)
        ends = words[0].text == "exit" or (words[0].text == "exec" and words[1:])
        if ends and not (around.joined or around.conditions or around.within):
            self.scope.ended = not self._refuses(command)
            self.content.refusals += [] if self.scope.ended else [command]

    def _call(self, body: Node, arguments: list[Word], around: Surroundings) -> None:
        """Read the body of a function; what is local there has its value of before after it."""
        scope, outer = self.scope, self.locals
        before, shifted = scope.arguments, scope.shifted
        scope.arguments, self.locals = arguments, {}
        self.walk(body, around)
        for name, value in self.locals.items():
            scope.variables.pop(name, None)
            scope.variables |= {name: value} if value is not None else {}
        scope.arguments, scope.shifted, self.locals = before, shifted, outer

    def _refuses(self, command: Command) -> bool:
        """Whether it ends a script that is not filled in: `if [ -z "$A" ]; then exit 1; fi`."""
        fails = command.name == "exit" and command.words[-1].text.strip("-0").isdecimal()
        names = [c.name for c in self.content.commands[command.chosen :] if not c.within]
        starts = any(is_python(n) or n in {**STARTERS, **CONTAINERS, **AGENTS} for n in names)
        return fails and command.chosen is not None and not starts

    def _command(self, around: Surroundings, **parts: Any) -> Command:
        shell = {name: getattr(self.scope, name) for name in ("folder", "pipefail", "functions")}
        return Command(**vars(around), **shell, **parts, order=len(self.content.commands))

    def _broken(self, command: Command) -> None:
        """Note a keyword that the grammar takes for a command; what is set near it is unknown.

        NOTE: it does so (0.25.1) for `then A=1 B=2` with `elif` or `else` on the next line.
        """
        self.content.faults.append(command.line)
        texts = (word.text for word in command.arguments)
        names = [text.partition("=")[0] for text in texts if "=" in text]
        self._hide([*command.given, *names], command.line, BRANCH)

    def _obey(self, command: Command, around: Surroundings) -> None:
        """Follow a command that changes the shell itself."""
        scope, name, options = self.scope, command.name, [word.text for word in command.arguments]
        if name in ("cd", "pushd") and options:
            scope.pushed += (scope.folder,) if name == "pushd" else ()
            back = command.arguments[-1].text == "-"
            scope.change(
                scope.last if back else changed_folder(scope.folder, command.arguments[-1])
            )
        elif name == "popd" and scope.pushed:
            scope.change(scope.pushed[-1])
            scope.pushed = scope.pushed[:-1]
        elif name == "set" and "pipefail" in options:
            scope.pipefail = "+o" not in options
        elif name in ("source", ".") and options:
            scope.sourced = scope.sourced or not options[0].endswith(HARMLESS)
        elif name == "set" and options[:1] == ["--"]:
            scope.arguments = list(command.arguments[1:])
        elif name == "shift" and not around.loops:
            number = [*options, "1"][0]
            scope.shift(int(number) if number.isdecimal() else 0)  # $((OPTIND - 1))
        elif name == "read" and command.document and "-d" in options:
            scope.variables[options[-1]] = command.document
        elif name in ("read", "mapfile", "readarray"):
            self._hide(filter(str.isidentifier, options), command.line)
        elif name == "let":
            for option in options:
                self._sums(syntax.parse(f"(({option}))"), command.line, around)

    def _sums(self, node: Node, line: int, around: Surroundings) -> None:
        """Follow the assignments of an arithmetic expression: n = 1, n += 1, n++."""
        kinds = ("binary_expression", "postfix_expression", "unary_expression")
        for assignment in filter(syntax.assigns, syntax.below(node, *kinds)):
            name = syntax.source(
                next(syntax.below(assignment, "variable_name", "word"), assignment)
            )
            plain = len(assignment.children) == 3 and syntax.source(assignment.children[1]) == "="
            number = self._expander(around).number(assignment.children[2]) if plain else None
            if number is None:
                self._hide([name], line, BRANCH if around.loops else COMMAND)
            else:
                self.scope.variables[name] = literal(str(number), line)

    def read_compound_statement(self, node: Node, around: Surroundings) -> None:
        """Read { ...; }, or ((...))."""
        if syntax.source(node).startswith("(("):
            self._sums(node, self._line(node), around)
        else:
            self._children(node.children, around)

    def _hide(self, names: Iterable[str], line: int, kind: str = COMMAND) -> None:
        """Note that the script alone does not tell the values of variables any more."""
        for name in names:
            self.scope.variables[name] = undecided(literal("", line), name, kind)

    def read_variable_assignment(self, node: Node, around: Surroundings) -> None:
        name = syntax.field(node, "name")
        if not name.startswith("-"):
            self._note(name, self._assigned(node, around), node)
            return
        # NOTE: the grammar (0.25.1) takes --name=value for an assignment
        value = self._expander(around).word(node.child_by_field_name("value"))
        self._run((compose((f"{name}=", *value.pieces), self._line(node)),), node, {}, around)

    def _assigned(self, node: Node, around: Surroundings) -> Word:
        """Assign a variable; return its value, of an array all items as one word."""
        name, value = syntax.field(node, "name"), node.child_by_field_name("value")
        adds = any(child.type == "+=" for child in node.children)
        before = self.scope.variables.get(name)
        if value is not None and value.type == "array":
            items = self._expander(around).array(value)
            if adds and before is not None:
                items = (*(before if isinstance(before, tuple) else (before,)), *items)
            self.scope.variables[name] = items
            return join(items, " ", self._line(node))
        word = self._expander(around).word(value)
        pieces = before.pieces if adds and isinstance(before, Word) else ()
        word = compose((*pieces, *word.pieces), self._line(node))
        if node.parent is None or node.parent.type != "command":
            self._item(name, word)
        return word

    def _item(self, target: str, value: Word) -> None:
        """Assign NAME or NAME[INDEX], which is known where it is the next item of a list."""
        name, _, index = target.partition("[")
        items = self.scope.variables.get(name, ())
        if index and isinstance(items, tuple) and index == f"{len(items)}]":
            self.scope.variables[name] = (*items, value)
        else:
            self.scope.variables[name] = undecided(value, name, COMMAND) if index else value

    def _note(self, name: str, value: Word, node: Node) -> None:
        self.content.assignments.append(Assignment(name, value, self._line(node)))

    def read_declaration_command(self, node: Node, around: Surroundings) -> None:
        texts = [syntax.source(child) for child in node.children]
        flags = "".join(text for text in texts[1:] if text.startswith("-"))
        exports, names = texts[0] == "export" or "x" in flags, list[str]()
        if around.depth and texts[0] in LOCAL and "g" not in flags:
            named = (text.partition("=")[0] for text in texts[1:])
            self.locals = {n: self.scope.variables.get(n) for n in named} | self.locals
        for child in node.children[1:]:
            if child.type == "variable_assignment":
                names.append(syntax.field(child, "name"))
                self._note(names[-1], self._assigned(child, around), node)
            elif child.type == "variable_name":
                names.append(syntax.source(child))
            elif child.type != "word":
                names += self._declared(child, exports, around)
        for name in names if exports else ():
            if body := self.functions.get(name):
                text = literal(syntax.source(body.parent or body), self._line(body))
                self.scope.functions = (*self.scope.functions, text)
            else:
                self.scope.exported.add(name)

    def _declared(self, node: Node, exports: bool, around: Surroundings) -> Iterator[str]:
        """Read `export "A=1"` and `export $VARIABLES`; what $(...) prints may set any variable."""
        for word in self._expander(around).words(node):
            name, *value = word.split("=", 1)
            if value and name.text.isidentifier():
                self.scope.variables[name.text] = value[0]
                self._note(name.text, value[0], node)
            elif name.unknown and exports:
                self.scope.sourced = True
                words, line = (literal("export"), word), self._line(node)
                self.content.commands.append(self._command(around, words=words, line=line))
            yield name.text

    def read_unset_command(self, node: Node, around: Surroundings) -> None:
        for child in node.children[1:]:
            self.scope.variables.pop(syntax.source(child), None)
            self.scope.exported.discard(syntax.source(child))

    def read_command_substitution(self, node: Node, around: Surroundings) -> None:
        self.substitute(node, around)
