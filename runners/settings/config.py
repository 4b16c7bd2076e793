"""Merges the sources of settings and records the origin of each value.

defaults < the recipe's preset < the site's profile < user file < project runner.toml < RUNNER_* <
SBATCH_* < flags
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Union

from ..core.command_line import DEFAULT, ENVIRONMENT, FLAG, PRESET, PROJECT, SITE, USER, Given
from ..core.site import Profile
from ..core.toml_check import check, one_of
from .config_files import tables, user_file
from .table import LISTS, SETTINGS, Setting

DEFAULTS: dict[str, Any] = {
    "nodes": 1,
    "controller": "auto",
    "launcher": "auto",
    "runtime": "auto",
    "scheduler": "auto",
    "runs-dir": "runs",
    "stage-data": "none",
    "stage-image": "none",
}
NOT_ASKED = (DEFAULT, PRESET, SITE)  # origins of what the user has not given
WORDS = {DEFAULT: "default", FLAG: "command line"}
# Settings of which a user gives one; a site's default gives way to another one of the same group.
MUTUALLY_EXCLUSIVE = (
    ("gpus", "gpus-per-node", "gpus-per-task", "gres"),
    ("ntasks", "ntasks-per-node"),
)
TYPES: dict[str, Any] = {
    "int": int,
    "number": float,
    "text": str,
    "switch": bool,
    "list": tuple[str, ...],
}
KINDS: dict[str, Any] = {
    name: Annotated[str, one_of(*setting.choices)] if setting.choices else TYPES[setting.kind]
    for name, setting in SETTINGS.items()
}
KINDS["env"] = Union[tuple[str, ...], dict[str, str]]


@dataclass(frozen=True)
class ConfigLayer:
    """Settings from one source of a kind; `where` names it as a user would find it.

    A PRESET is what comes with the trainer: the least that its user has asked for.
    """

    kind: str
    values: dict[str, Any]
    where: str = ""

    def given(self, name: str) -> list[Given]:
        """Return one of its settings, a list item by item."""
        value = self.values[name]
        items = value if name in LISTS else [value]
        return [Given(name, item, self.kind, self.where) for item in items]


@dataclass(frozen=True)
class Config:
    """The merged settings, and each as it was given, a list item by item.

    They come from the layers `below` what the user has set, a site's profile, and the user's `own`.
    """

    values: dict[str, Any]
    given: tuple[Given, ...]
    below: tuple[ConfigLayer, ...] = ()
    profile: Profile | None = None
    own: tuple[ConfigLayer, ...] = ()

    def get(self, name: str) -> Any:
        return self.values.get(name)

    @property
    def runs_dir(self) -> Path:
        """The folder for the runs."""
        return Path(self.get("runs-dir")).absolute()

    @property
    def presets(self) -> frozenset[str]:
        return frozenset(setting.name for setting in self.given if setting.origin == PRESET)

    @property
    def unasked(self) -> frozenset[str]:
        """The settings that only a default, the trainer's preset or the site's profile brought."""
        return frozenset(setting.name for setting in self.given if setting.origin in NOT_ASKED)

    def is_asked(self, name: str) -> bool:
        """Whether the user gave it, on the command line, in a file or in a variable."""
        return any(
            setting.name == name and setting.origin not in NOT_ASKED for setting in self.given
        )

    def reasons(self) -> dict[str, str]:
        """Return, for each setting that was not typed, where its value comes from."""
        given_names = {
            setting.name for setting in self.given if setting.origin not in (DEFAULT, FLAG)
        }
        origins = {name: f"from {self.origins(name)}" for name in given_names}
        return {**origins, **dict.fromkeys(self.presets, "the trainer's preset")}

    def origins(self, name: str) -> str:
        """Return where it came from in words, a list's items perhaps from several places."""
        layers = [setting for setting in self.given if setting.name == name]
        return ", ".join(
            dict.fromkeys(setting.where or WORDS[setting.origin] for setting in layers)
        )


def merged(
    below: Sequence[ConfigLayer], profile: Profile | None, own_layers: Sequence[ConfigLayer]
) -> Config:
    """Merge the layers below the user's own, a site's profile, and those."""
    both = merge([*below, *site_layers(profile, own_layers), *own_layers])
    return replace(both, below=tuple(below), profile=profile, own=tuple(own_layers))


def merge(layers: list[ConfigLayer]) -> Config:
    """Merge layers, the later ones winning; lists add up."""
    values: dict[str, Any] = {}
    given: dict[str, list[Given]] = {}
    for layer in layers:
        for name, value in layer.values.items():
            if name in LISTS:
                given[name] = _joined(name, given.get(name, []), layer.given(name))
                values[name] = [item.value for item in given[name]]
            else:
                values[name], given[name] = value, layer.given(name)
    # Flags last, in the order in which they were typed.
    entries = [item for items in given.values() for item in items]
    return Config(values, tuple(sorted(entries, key=lambda item: item.origin == FLAG)))


def _joined(name: str, old: list[Given], new: list[Given]) -> list[Given]:
    """Return a list's items; a module takes the place of one of the same name."""
    if name != "module":
        return [*old, *new]
    entries = list(old)
    for item in new:
        same = [entry for entry in entries if entry in old and _modules(entry) & _modules(item)]
        place = entries.index(same[0]) if same else len(entries)
        rest = [entry for entry in entries[place:] if entry not in same]
        entries = [*entries[:place], item, *rest]
    return entries


def _modules(given: Given) -> set[str]:
    """Return the names, without versions, of a module or of its alternatives."""
    return {text.partition("/")[0] for text in str(given.value).split("|")}


def load(
    flags: Mapping[str, Any],
    env: Mapping[str, str],
    preset: ConfigLayer | None = None,
    profile: Profile | None = None,
    strict: bool = True,
) -> Config:
    """Return the settings in force here; raise UsageError for a file with unknown keys.

    A command that is not `strict` launches nothing by them: a project's file of another user is
    left out, with a warning, and does not stop it.
    """
    mine = str(user_file(env))
    own_layers = [
        check_table(path, table, USER if path == mine else PROJECT)
        for path, table in tables(env, "launch", strict)
    ]
    own_layers += from_environment(env)
    own_layers.append(ConfigLayer(FLAG, {k: v for k, v in flags.items() if v not in (None, ())}))
    below = [ConfigLayer(DEFAULT, DEFAULTS), *([preset] if preset else [])]
    return merged(below, profile, own_layers)


def site_layers(profile: Profile | None, own_layers: Sequence[ConfigLayer]) -> list[ConfigLayer]:
    """Return a layer for each setting of the site that the user's own layers leave in force."""
    if profile is None:
        return []
    given = {name for layer in own_layers for name in layer.values}
    others = {name for names in MUTUALLY_EXCLUSIVE if given & set(names) for name in names}
    return [
        ConfigLayer(
            SITE, {name: value}, f"site {profile.name} ({profile.files.get(f'launch.{name}', '')})"
        )
        for name, value in profile.launch.items()
        if name not in others
    ]


def check_table(where: str, table: Mapping[str, Any], kind: str = PRESET) -> ConfigLayer:
    """Return a table of settings as a layer; raise UsageError for unknown keys and wrong types."""
    values = dict(table)
    check(where, KINDS, values)
    if isinstance(values.get("env"), dict):
        values["env"] = [f"{name}={text}" for name, text in values["env"].items()]
    return ConfigLayer(kind, values, where)


def from_environment(env: Mapping[str, str]) -> list[ConfigLayer]:
    """Return one layer for each RUNNER_* variable that names a setting, then each SBATCH_* one.

    sbatch would read SBATCH_* itself and let them win over the script's own lines; taken here
    they appear in the script, and `submit` removes them.
    """
    layers = []
    for prefix in ("RUNNER_", "SBATCH_"):
        for setting in SETTINGS.values():
            name = variable(setting) if prefix == "RUNNER_" else setting.sbatch
            if name and env.get(name):
                value = _from_text(setting.kind, env[name])
                layers.append(check_table(name, {setting.name: value}, ENVIRONMENT))
    return layers


def variable(setting: Setting) -> str:
    """Return the environment variable of a setting: `cpus-per-task` is RUNNER_CPUS_PER_TASK."""
    return "RUNNER_" + setting.name.upper().replace("-", "_")


def _from_text(kind: str, text: str) -> Any:
    """Return a variable's value as it would stand in a file; the text where it is of no kind."""
    if kind == "switch":
        # SBATCH_EXCLUSIVE may be set to a mode such as "user": any of them asks for it.
        return text.lower() not in ("0", "false", "no")
    if kind == "list":
        return text.splitlines()
    try:
        return TYPES[kind](text)
    except ValueError:
        return text
