"""Identity of a run, as far as files say it: modules of steps, and files under ``depends``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headgate.flows import ModuleText, RunIdentity, StepLauncher, code_of, declared_identity

if TYPE_CHECKING:
    from headgate.flows import Dataflow
    from headgate.spark.messages import StepRequest

PACKAGE: Final = "__init__.py"


class DependencyError(OSError):
    """A file that an action depends on and that cannot be read."""


def module_in(roots: Sequence[str], name: str) -> ModuleText | None:
    """Return a module as it is in one of several directories now; None where it is in none."""
    for root in roots:
        place = Path(root, *name.split("."))
        for file in (place / PACKAGE, place.with_name(f"{place.name}.py")):
            if file.is_file():
                return ModuleText(file.read_bytes(), file.name == PACKAGE)
    return None


def code_in(entry: str, roots: Sequence[str]) -> dict[str, str]:
    """Return hashes of the modules that an entry needs, as they are in directories now.

    Args:
        entry: ``module:function``; empty where there is none.
        roots: the directories.
    """
    if not entry:
        return {}
    return code_of(entry.partition(":")[0], lambda name: module_in(roots, name))


def file_digests(files: Mapping[str, str]) -> dict[str, str]:
    """Return SHA-256 of files (hexadecimal), by their names.

    Args:
        files: paths from the root, by the names under which they are asked for.

    Raises:
        DependencyError: one cannot be read.
    """
    return {name: _file_digest(name, Path(path)) for name, path in files.items()}


def _file_digest(name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        reason = "is a directory" if path.is_dir() else f"cannot be read: {error.strerror}"
        message = (
            f"`depends` names `{name}`, but {path} {reason}; put the file there, or correct "
            "`depends` in the dataflow file"
        )
        raise DependencyError(message) from error


def run_identity(
    request: StepRequest, code: Mapping[str, str], files: Mapping[str, str]
) -> RunIdentity:
    """Return what an attempt computes; one without hashes where its agent does not say it all.

    Args:
        request: the attempt's.
        code: hashes of the modules that its step needs.
        files: hashes of the files that it depends on.
    """
    if request.computes is None:
        return RunIdentity()
    return request.computes.with_read(code, files).hashes


def identity_on_disk(dataflow: Dataflow, action: str, base: Path) -> RunIdentity:
    """Return what an action would compute with the code and files that are on disk now.

    Args:
        dataflow: with the action.
        action: one that is launched.
        base: the directory of the dataflow file. A file that is not there counts as none.
    """
    launcher = dataflow.launchers[action]
    code: dict[str, str] = {}
    if isinstance(launcher, StepLauncher):
        roots = [str(base / Path(part).expanduser()) for part in launcher.python_path]
        code = code_in(launcher.step, roots)
    places = {path: base / Path(path).expanduser() for path in dataflow.actions[action].depends}
    files = file_digests({path: str(at) for path, at in places.items() if at.is_file()})
    return declared_identity(dataflow, action).with_read(code, files).hashes
