"""A packaged trainer's own options, asked of its parser: without torch or TensorFlow, in no job.

Of the trainer's file only the parser runs here: the function `parser`, or in the minimal ones the
statements that begin with it. It needs the standard library and `recipes.options`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from recipes import options
from recipes.ranks import UserError

from ..core.errors import UsageError, nearest
from ..core.remedy import command


def check(path: Path, args: Sequence[str]) -> None:
    """Raise UsageError for arguments that the trainer in a file would refuse as it reads them."""
    made = parser(path)
    try:
        _, unknown = made.parse_known_args(list(args))
    except UserError as error:
        raise _refused(path, str(error).splitlines()[0]) from error
    if unknown:
        option = unknown[0].partition("=")[0]
        names = [name for action in made._actions for name in action.option_strings]
        near = nearest(option, names) if option.startswith("--") else ""
        what = "option" if option.startswith("-") else "argument"
        raise _refused(path, f"there is no {what} {option}", near)


def _refused(path: Path, what: str, near: str = "") -> UsageError:
    remedy = command("runner", "recipes", "show", path.stem)
    return UsageError(f"{path.stem}: {what}", near, remedy)


def parser(path: Path) -> options.BareParser:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    about = (ast.get_docstring(tree) or "").splitlines()[0]
    # It raises where argparse's own would exit.
    plain = SimpleNamespace(ArgumentParser=lambda: options.BareParser(path.stem, about))
    scope: dict[str, Any] = {"options": options, "argparse": plain}
    body = [node for node in tree.body if _is_of_the_parser(node)]
    exec(compile(ast.Module(body, []), str(path), "exec"), scope)  # noqa: S102  a file of this package
    found = scope["parser"]
    made: options.BareParser = found() if callable(found) else found
    return made


def _is_of_the_parser(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name == "parser"
    return isinstance(node, (ast.Assign, ast.Expr)) and ast.unparse(node).startswith("parser")
