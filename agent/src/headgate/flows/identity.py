"""Identities of actions: actions with equal identities compute the same from the same input.

An edit is judged by this value, not by the text of files: comments, docstrings, the order of keys
and the spelling of numbers do not count. The caller passes the functions that read files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs
from msgspec.structs import asdict

from headgate.flows.code import ReadModule, code_of, digest
from headgate.flows.launchers import StepLauncher

if TYPE_CHECKING:
    from headgate.engine import ActionSpec
    from headgate.flows.dataflow import Dataflow


ReadFile = Callable[[str], bytes | None]
"""Returns what a file contains, by its path as written; None where there is none."""


class RunIdentity(Struct, frozen=True):
    """Hashes of what a run computed; runs with equal hashes computed the same."""

    hash: str = ""
    """SHA-256 of all of it, hexadecimal; empty where it is not known."""
    parts: dict[str, str] = {}
    """The beginning of the SHA-256 of each field of ``ActionIdentity``, by the field's name."""

    def differing(self, other: RunIdentity) -> tuple[str, ...]:
        """Return the names of the parts in which another identity differs."""
        names = self.parts.keys() & other.parts.keys()
        return tuple(sorted(name for name in names if self.parts[name] != other.parts[name]))


class ActionIdentity(Struct, frozen=True):
    """Everything that decides what an action computes; each field is a canonical text."""

    kind: str
    """The kind of launcher, and what it runs."""
    code: Mapping[str, str]
    """Hash of the syntax tree of each module that the action's function needs, by module."""
    parameters: str
    files: str
    """The files that it names under ``depends``."""
    containers: str
    """Those that it reads or writes, with columns, codecs and keys."""
    inputs: str
    """Flows by port and maker, what a run reads of them, and output flows."""
    spark: str
    """Settings of its Spark session."""

    @property
    def hash(self) -> str:
        """SHA-256, hexadecimal: equal where all fields are."""
        return digest(canonical(asdict(self)))

    @property
    def hashes(self) -> RunIdentity:
        """The form that a record keeps."""
        parts = {name: _part_hash(value) for name, value in asdict(self).items()}
        return RunIdentity(self.hash, parts)

    def with_read(self, code: Mapping[str, str], files: Mapping[str, str]) -> ActionIdentity:
        """Return the identity with what was read of code and files.

        Args:
            code: hash of the syntax tree of each module that the action's function needs.
            files: SHA-256 of each file under ``depends``, by its path as written.
        """
        return structs.replace(self, code=dict(code), files=canonical(files))

    def differing(self, other: ActionIdentity) -> tuple[str, ...]:
        """Return the names of the fields in which another identity differs."""
        mine, others = asdict(self), asdict(other)
        return tuple(name for name, value in mine.items() if value != others[name])


def identity_of(
    dataflow: Dataflow, action: str, read_module: ReadModule, read_file: ReadFile
) -> ActionIdentity:
    """Return what an action of a dataflow computes.

    Args:
        dataflow: with the action.
        action: a step or a stage of it.
        read_module: reads the modules of the dataflow.
        read_file: reads files that the action depends on.

    Raises:
        KeyError: no action of that name is launched.
    """
    launcher = dataflow.launchers[action]
    code = (
        code_of(launcher.step.partition(":")[0], read_module)
        if isinstance(launcher, StepLauncher)
        else {}
    )
    files = {path: _file_digest(read_file(path)) for path in dataflow.actions[action].depends}
    return declared_identity(dataflow, action).with_read(code, files)


def declared_identity(dataflow: Dataflow, action: str) -> ActionIdentity:
    """Return what a dataflow file says that an action computes: all but its code and its files.

    Raises:
        KeyError: no action of that name is launched.
    """
    launcher = dataflow.launchers[action]
    spec = next(one for one in dataflow.spec.actions if one.name == action)
    settings = stated(launcher)
    parameters = settings.pop("parameters", {})
    return ActionIdentity(
        canonical([type(launcher).__name__, spec.stage is not None, settings]),
        {},
        canonical(parameters),
        canonical({}),
        canonical(_containers(dataflow, spec)),
        canonical(_flows(spec)),
        canonical(dataflow.spark if isinstance(launcher, StepLauncher) else {}),
    )


_PART_LETTERS = 16
"""Hexadecimal digits of a part's hash: two parts of one action are compared, not millions."""


def _part_hash(value: Any) -> str:
    return digest(canonical(value))[:_PART_LETTERS]


def _file_digest(content: bytes | None) -> str:
    return "" if content is None else sha256(content).hexdigest()


def _containers(dataflow: Dataflow, spec: ActionSpec) -> dict[str, Any]:
    outside = {**dataflow.files, **dataflow.topics}
    known = container_identities(dataflow)
    return {
        key: {name: stated(outside[name]) if name in outside else known[name] for name in names}
        for key, names in (("reads", spec.reads), ("writes", spec.writes))
    }


def container_identities(dataflow: Dataflow) -> dict[str, str]:
    """Return, by container, a hash of its cells, its codec and its keys, whatever its name.

    How its elements are counted is left out: that is the engine's affair.
    """
    return {
        one.id: digest(
            canonical(
                [
                    [stated(item) for item in one.container.items],
                    stated(one.codec),
                    dataflow.keys.get(one.id, ""),
                ]
            )
        )
        for one in dataflow.spec.containers
    }


def _flows(spec: ActionSpec) -> dict[str, Any]:
    if spec.stage is None:
        return {}
    flows = stated(spec.stage)
    flows.pop("backlog", None)  # it says when the stage runs, not what it makes
    return flows


def stated(value: Struct) -> dict[str, Any]:
    """Return the fields of a struct that are not at their defaults, as mappings and lists.

    So a field that a later version adds changes nothing until it is used.
    """
    return {
        field.name: _plain(found)
        for field in structs.fields(value)
        if (found := getattr(value, field.name)) != field.default
    }


def _plain(value: Any) -> Any:
    match value:
        case Struct():
            return stated(value)
        case Mapping():
            return {key: _plain(one) for key, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case _:
            return value


def canonical(value: Any) -> str:
    """Return a text that is equal for equal values.

    Keys of mappings are sorted, and a float that is a whole number is that number.

    Args:
        value: None, a boolean, a number, text, bytes, or lists and mappings of such.

    Raises:
        TypeError: it is none of these.
    """
    match value:
        case None | bool():
            return repr(value)
        case float() if value.is_integer():
            return repr(int(value))
        case int() | float():
            return repr(value)
        case str() | bytes():
            return repr(value)
        case Mapping():
            pairs = sorted((canonical(key), canonical(one)) for key, one in value.items())
            return "{" + ", ".join(f"{key}: {one}" for key, one in pairs) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(canonical, value)) + "]"
        case _:
            message = f"{value!r} of type {type(value).__name__} has no canonical form"
            raise TypeError(message)
