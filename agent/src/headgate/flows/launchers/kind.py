"""What a kind of launcher is: the struct it is read into, and the keys it is written with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

from headgate.flows.grammar.kinds import Key
from headgate.flows.grammar.problems import Findings
from headgate.flows.grammar.tree import Mapping, Tree

L_co = TypeVar("L_co", bound="LauncherSettings", covariant=True)


class LauncherSettings(Struct, frozen=True):
    """How one action is run; the base of a struct for each kind, whose tag is the kind's name."""

    @property
    def kind(self) -> str:
        """The kind's name, as files write it."""
        return str(self.__struct_config__.tag)

    @property
    def directories(self) -> Iterable[str]:
        """Directories that it names, as written."""
        return ()

    @property
    def shipped(self) -> Iterable[str]:
        """Paths or URLs of the files that it names, as written."""
        return ()


class StepLauncher(LauncherSettings, frozen=True):
    """A launcher of Python functions that take the run.

    ``step`` is ``module:function``; ``python_path`` holds directories for its module, as written,
    relative to the directory of the dataflow file. ``parameters`` holds JSON values.
    """

    step: str
    python_path: tuple[str, ...] = (".",)
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def directories(self) -> Iterable[str]:
        """Those in which its module is looked for."""
        return self.python_path

    @property
    def module(self) -> str:
        """The module that holds the function."""
        return self.step.partition(":")[0]

    @property
    def function(self) -> str:
        """The function's name in the module."""
        return self.step.partition(":")[2]


@dataclass(frozen=True, slots=True)
class Target:
    """The key of an action that says what is run, and what may stand there."""

    name: str
    key: Key


@dataclass(frozen=True, slots=True)
class LaunchSection:
    """What a file says of one launch, matched with the grammar.

    ``target`` is the value at the target's key, ``settings`` those written under the launcher's
    name; ``python_path`` and ``spark`` are the dataflow's.
    """

    target: Tree
    settings: Mapping
    parameters: dict[str, Any]
    python_path: tuple[str, ...]
    spark: dict[str, str]
    findings: Findings


@dataclass(frozen=True, slots=True)
class LauncherKind(Generic[L_co]):
    """One kind of launcher.

    ``name`` is what files and the agent's ``launchers.allowed`` call it, ``runs`` what it can run:
    the first kind in the table with a target is that target's default. ``settings`` are its own
    keys, None where it has none; ``by_name`` says whether its name alone may be written.
    """

    name: str
    runs: tuple[Target, ...]
    read: Callable[[LaunchSection], L_co]
    settings: Key | None = None
    by_name: bool = False
