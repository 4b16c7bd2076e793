"""The shell's grammar, by tree-sitter-bash; imported here only: a Dockerfile needs none of it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from runners.core.errors import Refused
from runners.core.remedy import command

if TYPE_CHECKING:
    from tree_sitter import Node as Node
else:
    Node = object  # the parser is loaded when the first script is read

# What is read as in quotes: a place that the user is to fill in, where the shell would read a file,
# a line end that the shell takes out of a word (the grammar, 0.25.1, ends the word there), and a $
# of no variable (which it does not know before such a sign).
PLACE = rb"(?<=[\s=:/.])<[A-Za-z](?:[\w .-]*\w)?>(?=[\s/:.,;_-]|$)"
LINE_END, DOLLAR = (
    rb"(?<=[\w\"'}/.,:=-])\\\n(?=[\w\"'$/.:,{-])",
    rb"(?<![$\\])\$(?=[=,./:%+~\s)|;&]|$)",
)
QUOTED = re.compile(b"|".join((PLACE, LINE_END, DOLLAR)), re.MULTILINE)
DOCUMENT = re.compile(rb"^(?=<<-?[ \t]*['\"\\]?\w)", re.MULTILINE)  # of no command: a comment
# A comment in a continued line, `# so`, of which the grammar takes all to the line's end for one.
INLINE = re.compile(rb"(?<=[ \t])`#[^`\n]*`(?=[ \t]*\\?$)", re.MULTILINE)
QUOTES = ("string", "raw_string", "ansi_c_string", "heredoc_body", "comment")
OPENING = ('"', "if", "for", "while", "until", "case", "{", "(", "$(")
MOST_PASSES = 50  # of what is written so that the grammar reads it


def parse(text: str) -> Node:
    """Return the root of a script's syntax tree. Raises Refused where the parser is missing."""
    try:
        import tree_sitter_bash
        from tree_sitter import Language, Parser
    except ImportError as error:
        raise Refused(
            "batch scripts are read with tree-sitter, which this Python does not have",
            str(error),
            command(sys.executable, "-m", "pip", "install", "tree-sitter", "tree-sitter-bash"),
            id="script-parser-missing",
        ) from None
    # NOTE: the grammar (0.25.1) does not know a script that ends with a continued line.
    parser, data = Parser(Language(tree_sitter_bash.language())), text.rstrip(" \t\n\\").encode()
    data = INLINE.sub(lambda found: b" " * len(found[0]), DOCUMENT.sub(b": ", data))
    for place in reversed([*_conditions(data)]):
        data = data[:place] + b" " + data[place:]
    root = parser.parse(data).root_node
    while body := _heredoc(root, lines := data.split(b"\n")):
        lines[body[0] : body[1]] = [_comment(line) for line in lines[body[0] : body[1]]]
        data = b"\n".join(lines)
        root = parser.parse(data).root_node
    for find, signs in ((_unquoted, (b'"', b'"')), (_bare_dollars, (b"{", b"}"))):
        for _ in range(MOST_PASSES):
            if not (spots := [*find(root, data)]):
                break
            for begin, end in reversed(spots):
                data = signs[0].join((data[:begin], data[begin:end])) + signs[1] + data[end:]
            root = parser.parse(data).root_node
    return root


def _unquoted(root: Node, data: bytes) -> Iterator[tuple[int, int]]:
    for match in QUOTED.finditer(data):
        node = root.descendant_for_byte_range(match.start(), match.start())
        while node is not None and node.type not in QUOTES:
            node = node.parent
        if node is None:
            yield match.span()


def _bare_dollars(root: Node, data: bytes) -> Iterator[tuple[int, int]]:
    """Yield begin and end of names behind a `$` that the grammar takes for a sign of its own.

    NOTE: it does so (0.25.1) for the second one of `$A,$B` and `$A/$1`; in braces it is read.
    """
    for node in below(root, "$"):
        begin = end = node.end_byte
        while data[end : end + 1].isalnum() or data[end : end + 1] == b"_":
            end += 1
            if data[begin : begin + 1].isdigit():
                break
        in_expansion = node.parent is not None and node.parent.type == "simple_expansion"
        if end > begin and not in_expansion:
            yield begin, end


def _conditions(data: bytes) -> Iterator[int]:
    """Yield places behind `$(` of `$(((A)) && B)`, which the grammar (0.25.1) misreads."""
    begin = data.find(b"$(((")
    while begin >= 0:
        depth, at = 2, begin + 4
        while depth and at < len(data):
            depth, at = depth + {40: 1, 41: -1}.get(data[at], 0), at + 1
        if data[at : at + 1] not in (b")", b""):
            yield begin + 2
        begin = data.find(b"$(((", begin + 1)


def _heredoc(root: Node, lines: list[bytes]) -> tuple[int, int] | None:
    """Return the lines of a here-document's body that has more than comments.

    NOTE: behind some expansions in it the grammar (0.25.1) misses the closing line, and takes the
    rest of the script for the body. The body is emptied: of it only directives are told.
    """
    for node in below(root, "heredoc_start"):
        first, closing = node.start_point[0] + 1, source(node).strip("'\"\\").encode()
        tabs = node.parent is not None and node.parent.children[0].type == "<<-"
        for last in range(first, len(lines)):
            if (lines[last].lstrip(b"\t") if tabs else lines[last]) == closing:
                if any(line != _comment(line) for line in lines[first:last]):
                    return first, last
                break
    return None


def _comment(line: bytes) -> bytes:
    return line if line.startswith(b"#") else b""


def source(node: Node) -> str:
    return (node.text or b"").decode()


def field(node: Node, name: str) -> str:
    """Return the text of a node's part, "" where it is not there."""
    return "".join(map(source, node.children_by_field_name(name)[:1]))


def line(node: Node) -> int:
    return node.start_point[0] + 1


def below(node: Node, *kinds: str) -> Iterator[Node]:
    """Yield a node and those below it, of all kinds or of these."""
    if not kinds or node.type in kinds:
        yield node
    for child in node.children:
        yield from below(child, *kinds)


def faults(root: Node) -> list[int]:
    """Return the lines from which on the grammar does not fit.

    A quote that is left open ends at the next one of the script: it is the first one of a text over
    several lines that goes on behind it without a blank.
    """
    nodes = [*below(root)]
    broken = [_begin(node) for node in nodes if node.is_missing or _is_fault(node)]
    lines = sorted({line(node) for node in broken})
    quotes = {source(node)[:1] for node in broken} & {"'", '"'}
    opened = [line(node) for node in nodes if _goes_on(node) and source(node)[:1] in quotes]
    return [number for number in lines if number < opened[0]] + opened[:1] if opened else lines


def _is_fault(node: Node) -> bool:
    """Whether a part is not read; the grammar (0.25.1) does not read ${A:$B+1} and $((10#$A))."""
    above, values = node if node.is_error else None, ("expansion", "arithmetic_expansion")
    while above is not None and above.type not in values:
        above = above.parent
    return node.is_error and above is None


def _begin(node: Node) -> Node:
    """Return what is left open: of a closing sign that is missing, or a part that is not read."""
    opened = [child for child in node.children if child.type in OPENING]
    quotes = [sign for sign in opened if sign.type == '"']
    return (node.parent if node.is_missing else None) or (*quotes[-1:], *opened, node)[0]


def _goes_on(node: Node) -> bool:
    after, several = node.next_sibling, node.end_point[0] > node.start_point[0]
    glued = after is not None and after.is_named and after.start_byte == node.end_byte
    return node.type in ("string", "raw_string") and several and glued


def pieces(node: Node) -> Iterator[Node | str]:
    """Yield the parts of a quoted string, with the blanks between them.

    NOTE: the grammar (0.25.1) leaves blanks and line ends between two parts to no node, or to the
    next one's first sign.
    """
    text, begin = node.text or b"", node.start_byte
    at = begin
    for child in node.children:
        blanks = len(source(child)) - len(source(child).lstrip(" \t\n\\"))
        skipped = 0 if child.type == "string_content" else blanks
        if child.start_byte + skipped > at:
            yield text[at - begin : child.start_byte + skipped - begin].decode()
        yield child
        at = child.end_byte


def assigned(nodes: Sequence[Node]) -> set[str]:
    """Return the names of the variables that commands set, but not for one command alone."""
    names, sums = set[str](), ("binary_expression", "unary_expression", "postfix_expression")
    for node in (part for top in nodes for part in below(top)):
        text, above = source(node), node.parent.type if node.parent else ""
        if node.type == "variable_assignment" and above != "command":
            names.add(field(node, "name").partition("[")[0])
        elif node.type == "command" and text.startswith("let "):
            names |= assigned([parse(f"(({text[4:]}))")])
        elif node.type in sums and assigns(node):
            names.add(source(next(below(node, "variable_name", "word"), node)))
    return names


def assigns(node: Node) -> bool:
    """Whether an arithmetic expression sets a variable, as `n = 1`, `n += 1` and `n++` do."""
    signs = [source(child) for child in node.children if not child.is_named]
    compares = ("==", "!=", "<=", ">=")
    return any(sign.endswith(("++", "--", "=")) and sign not in compares for sign in signs)
