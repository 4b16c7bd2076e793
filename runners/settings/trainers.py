"""Resolves TRAINER: a packaged recipe, a file of the user, or a program; a recipe's own options.

Of a recipe's file only the parser runs here, without torch or TensorFlow: the function `parser`, or
in the minimal ones the statements that begin with it. It needs the standard library and
`recipes.options`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ..contract.enums import ProcessGroup
from ..core.errors import NotFound, UsageError, close, nearest
from ..core.remedy import change, command
from ..core.trainer import Framework, Trainer
from . import config, config_files

if TYPE_CHECKING:
    from recipes.options import BareParser

PYTHON = re.compile(r"python[\d.]*")
PYTHON_OF_MODULES = ("python3", ("-m",))
# What starts the ranks elsewhere; here each would do so once more.
STARTERS = re.compile(r"horovodrun|mpirun|mpiexec|srun|deepspeed")
PACKAGE = "recipes"
# What creates the process group of a recipe, by its option --exchange.
WORLDS = {
    "horovod": ProcessGroup.HOROVOD,
    "ddp": ProcessGroup.TORCH,
    "fsdp": ProcessGroup.TORCH,
    "mirrored": ProcessGroup.TENSORFLOW,
}
EXCHANGE = re.compile(r'"--exchange", choices=.*\bdefault="(\w+)"')
# What a script or command seems to exchange gradients by; mpi4py meets as Horovod over MPI does.
SEEN = (
    (r"horovod|mpi4py", ProcessGroup.HOROVOD),
    (r"torch\.distributed|init_process_group|DistributedDataParallel", ProcessGroup.TORCH),
    (r"^\s*(import|from) (lightning|pytorch_lightning|accelerate|deepspeed)\b", ProcessGroup.TORCH),
    (r"MultiWorkerMirroredStrategy", ProcessGroup.TENSORFLOW),
)
TEXTS = (".py", ".sh")
IMPORTED = re.compile(r"^(?:import|from) (torch|tensorflow)\b", re.MULTILINE)  # not in a `try`
IN_IMAGES = re.compile(r"python[\d.]*|(ba)?sh|torchrun|accelerate|env")  # here or not


RECIPES = Path(__file__).resolve().parents[2] / PACKAGE  # beside this package, not imported
MINIMAL = "minimal"


def presets() -> dict[str, dict[str, Any]]:
    """Return every recipe's preset by name: kind, description, framework and resources."""
    return {name: _preset(path) for name, path in _presets().items()}


def _preset(path: Path) -> dict[str, Any]:
    kind = MINIMAL if path.parent.name == MINIMAL else "full"
    return {"kind": kind, **config_files.read_toml(path)}


def source(name: str) -> Path | None:
    """Return the file of a packaged recipe; None for a name that stands for none."""
    preset = _presets().get(name)
    return preset and preset.with_suffix(".py")


def packaged(name: str) -> Path:
    """Return the file of a packaged recipe; raise NotFound."""
    if path := source(name):
        return path
    raise NotFound(
        f"there is no recipe named {name!r}", nearest(name, _presets()), id="recipe-unknown"
    )


def _presets() -> dict[str, Path]:
    paths = [*sorted(RECIPES.glob("*.toml")), *sorted((RECIPES / MINIMAL).glob("*.toml"))]
    return {path.stem: path for path in paths}


def find(
    name: str, args: tuple[str, ...], swept: bool = False
) -> tuple[Trainer, config.ConfigLayer | None]:
    """Return the trainer and its preset as a layer of settings; each run of a sweep adds arguments.

    Raises NotFound, with the nearest names, when there is neither such a recipe nor such a file,
    UsageError for arguments that a recipe would refuse.
    """
    name, args = _python_left_out(name, args)
    if (name, args[:1]) == PYTHON_OF_MODULES:
        return _program(name, args), None
    if os.path.isdir(name) and name not in _presets():
        raise _folder(name, args)
    if name.endswith(".py"):
        return _file(name, args), None
    if _is_program(name):
        return _program(name, args), None
    path = _presets().get(name)
    if path is None:
        raise _unknown(name, args)
    check_arguments(name, args, swept)
    preset = _preset(path)
    layer = config.check_table(f"recipe {name}", preset.get("resources", {}))
    requires = None if preset["framework"] == "none" else Framework(preset["framework"])
    world = WORLDS.get(_exchange(args)) or ProcessGroup(preset["world"])
    return Trainer(name, _module(path), None, args, requires, typed=name, world=world), layer


def as_launched(name: str, args: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command on each rank by the name of a launch alone: its file may be gone."""
    name, args = _python_left_out(name, args)
    path = _presets().get(name)
    start = ("-m", _module(path)) if path else (name,) if name else ()
    return (*start, *args)


def _python_left_out(name: str, args: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return a script in place of the Python that is typed before it elsewhere; it is -u here.

    Of a module, -m in place of a program's name, it is put before.
    """
    if PYTHON.fullmatch(name) and args and args[0].endswith(".py"):
        return args[0], args[1:]
    return ("python3", (name, *args)) if name == "-m" else (name, args)


def _module(preset: Path) -> str:
    package = f"{PACKAGE}.{MINIMAL}" if preset.parent.name == MINIMAL else PACKAGE
    return f"{package}.{preset.stem}"


def _exchange(args: tuple[str, ...]) -> str:
    """Return the value of a recipe's option --exchange."""
    values = [word.partition("=")[2] for word in args if word.startswith("--exchange=")]
    values += [value for word, value in zip(args, args[1:]) if word == "--exchange"]
    return values[-1] if values else ""


def _is_program(name: str) -> bool:
    """Whether a word is no recipe's name, and a program here or in most images."""
    if "/" in name:
        return True
    known = name in _presets() or STARTERS.fullmatch(name)
    return not known and bool(IN_IMAGES.fullmatch(name) or shutil.which(name))


def _program(name: str, args: tuple[str, ...]) -> Trainer:
    """Return a program of the image. Raises NotFound and UsageError for a file that is none."""
    path = Path(name)
    if "/" in name and not path.is_absolute() and not path.is_file():
        raise _no_file(name, args)
    if "/" in name and path.is_file() and not os.access(path, os.X_OK):
        raise UsageError(
            f"the trainer {name} is not executable",
            remedy=[change(trainer=("bash", name, *args)), command("chmod", "+x", name)],
            id="trainer-not-executable",
        )
    own_file = path.absolute() if "/" in name and path.is_file() else None
    file = own_file or next((Path(word).absolute() for word in args if Path(word).is_file()), None)
    module = PYTHON.fullmatch(name) and args[:1] == ("-m",) and args[1:2]
    title = module[0] if module else path.name
    text = file.read_text(errors="replace") if file and file.suffix in TEXTS else ""
    return Trainer(
        *(title, None, file, args),
        program=str(own_file or name),
        typed=name,
        seen_world=_seen_world("\n".join((text, *args))),
    )


def _unknown(name: str, args: tuple[str, ...]) -> NotFound:
    """Return the error for a name that is no recipe's, perhaps that of what starts scripts."""
    what, script = f"there is no recipe named {name!r}", f"{name}.py"
    at = next((place for place, word in enumerate(args) if word.endswith(".py")), None)
    if at is not None and STARTERS.fullmatch(name):
        why = f"the trainer is the script itself: a launch starts {name} by itself, on each rank"
        return NotFound(what, why, change(trainer=args[at:]), id="trainer-is-starter")
    meant = ([script] if Path(script).is_file() else []) + close(name, _presets())
    hint = "a program that only the image has is named by its full path"
    remedies = [change(trainer=(candidate, *args)) for candidate in meant]
    return NotFound(what, f"{nearest(name, _presets())}\n{hint}", remedies, id="recipe-unknown")


def is_one(name: str) -> bool:
    """Whether a word names a recipe, a script or a program."""
    return name.endswith(".py") or name in _presets() or _is_program(name)


def _file(name: str, args: tuple[str, ...]) -> Trainer:
    path = Path(name)
    if not path.is_file():
        raise _no_file(name, args)
    source = path.read_text(encoding="utf-8", errors="replace")
    imports = re.search(r"^\s*(from|import) recipes\b", source, re.MULTILINE) is not None
    uses_recipes = imports and not (path.parent / PACKAGE).is_dir()  # a copy brings its own
    # A copy of a recipe has its option --exchange, whose default may have been edited.
    option = EXCHANGE.search(source) if imports else None
    world = WORLDS.get(_exchange(args) or option[1]) if option else None
    return Trainer(
        *(path.stem, None, path.absolute(), args),
        uses_recipes=uses_recipes,
        typed=name,
        world=world,
        seen_world=_seen_world(source),
        imports=tuple(dict.fromkeys(IMPORTED.findall(source))),
    )


def _seen_world(source: str) -> ProcessGroup | None:
    return next((world for form, world in SEEN if re.search(form, source, re.MULTILINE)), None)


def _folder(name: str, args: tuple[str, ...]) -> UsageError:
    """Return the error for a folder; Python runs one that has a __main__.py."""
    main = Path(name, "__main__.py")
    scripts = [main] if main.is_file() else sorted(Path(name).glob("*.py"))[:3]
    offers = [change(trainer=(str(script), *args)) for script in scripts]
    return UsageError(f"the trainer {name} is a folder", remedy=offers, id="trainer-is-folder")


def _no_file(name: str, args: tuple[str, ...]) -> NotFound:
    path = Path(name)
    folder = path.parent if path.parent.is_dir() else Path()
    files = [file.name for file in folder.glob(f"*{path.suffix}")]
    remedies = [change(trainer=(str(folder / near), *args)) for near in close(path.name, files)]
    return NotFound(
        f"the trainer {name} does not exist",
        nearest(path.name, files),
        remedies,
        id="trainer-not-found",
    )


def check_arguments(name: str, args: Sequence[str], more: bool = False) -> None:
    """Raise UsageError for arguments that a packaged trainer would refuse; others are not asked."""
    path = source(name)
    if path is None:
        return
    from recipes.distributed import UserError  # with the parser 10 ms that no other launch need pay

    made = parser(path)
    try:
        _, unknown = made.parse_known_args(list(args))
    except UserError as error:
        what = str(error).splitlines()[0]
        if more and "are required" in what:
            return
        raise _refused(path, what, id="trainer-arguments") from error
    if unknown:
        option = unknown[0].partition("=")[0]
        names = [name for action in made._actions for name in action.option_strings]
        near = nearest(option, names) if option.startswith("--") else ""
        what = "option" if option.startswith("-") else "argument"
        raise _refused(path, f"there is no {what} {option}", near, id="trainer-option-unknown")


def _refused(path: Path, what: str, near: str = "", *, id: str) -> UsageError:
    remedy = command("runner", "recipes", "show", path.stem)
    return UsageError(f"{path.stem}: {what}", near, remedy, id=id)


def parser(path: Path) -> BareParser:
    import ast

    from recipes import options

    tree = ast.parse(path.read_text(encoding="utf-8"))
    about = (ast.get_docstring(tree) or "").splitlines()[0]
    # It raises where argparse's own would exit.
    plain = SimpleNamespace(ArgumentParser=lambda: options.BareParser(path.stem, about))
    scope: dict[str, Any] = {"options": options, "argparse": plain}
    body: list[ast.stmt] = [
        node
        for node in tree.body
        if (isinstance(node, ast.FunctionDef) and node.name == "parser")
        or (isinstance(node, (ast.Assign, ast.Expr)) and ast.unparse(node).startswith("parser"))
    ]
    exec(compile(ast.Module(body, []), str(path), "exec"), scope)  # noqa: S102  a file of this package
    parser = scope["parser"]
    made: BareParser = parser() if callable(parser) else parser
    return made
