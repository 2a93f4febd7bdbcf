"""Finding a Java that HBase, Kafka and Spark run on."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec


class UnfitJava(Exception):
    """There is no Java that fits; says what was found and what to install."""


FIT_VERSIONS = (17, 21)  # PySpark 4 runs on these two only

PLACES_VARIABLE = "HEADGATE_JAVA_PLACES"
"""Names patterns of Java homes, separated as ``PATH`` is, in the place of the usual ones."""

_USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/lib64/jvm/*",
    "/usr/java/*",
    "/opt/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*",
    "/usr/local/opt/openjdk*",
    "/home/linuxbrew/.linuxbrew/opt/openjdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
    "~/.asdf/installs/java/*",
    "~/.local/share/mise/installs/java/*",
)
"""Folders in which packages, installers and version managers put Java homes."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_MODES = re.compile(r", (?:mixed|interpreted|compiled) mode[^)]*")
_ANSWER_SECONDS = 20.0  # `java -version` takes 0.1 s; a stalled disk deserves patience, not a hang
_CURE = (
    "HBase, Kafka and Spark need Java 17 or 21. Install one (Debian, Ubuntu: apt-get install "
    "openjdk-17-jre-headless; Fedora: dnf install java-17-openjdk-headless; macOS: brew install "
    "openjdk@17), or set JAVA_HOME to one that is installed."
)


class Java(msgspec.Struct, frozen=True):
    """One Java that was found.

    Attributes:
        program: Its file.
        version: Its feature release, 17 for 17.0.15.
        build: What it says of itself, which no other build says.
    """

    program: Path
    version: int
    build: str


def installed_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the first fit Java of ``JAVA_HOME``, ``PATH`` and the usual places, in this order.

    Args:
        environment: Where the variables are read from; by default the process's own.

    Raises:
        UnfitJava: there is none.
    """
    looked_at: list[str] = []
    for origin, program in _candidates(os.environ if environment is None else environment):
        if program is None:
            looked_at.append(f"{origin}: no java there")
            continue
        try:
            said = _ask_version(program)
        except (OSError, subprocess.SubprocessError) as error:
            looked_at.append(f"{origin}: {program} does not run ({error})")
            continue
        version = parse_version(said)
        if version in FIT_VERSIONS:
            return Java(program=program, version=version, build=parse_build(said))
        found = f"is Java {version}" if version else f"says {said.strip()[:200]!r}"
        looked_at.append(f"{origin}: {program} {found}")
    raise UnfitJava(f"no fit Java found. {'; '.join(looked_at)}. {_CURE}")


def java_home_for_spark(environment: Mapping[str, str]) -> str | None:
    """Return the home of a fit Java where Spark would take another one, or none.

    Spark takes that of ``JAVA_HOME``, and without the variable that of ``PATH``.

    Args:
        environment: of the process that starts Spark.

    Returns:
        None where Spark's own choice fits, and where no fit Java is installed: Spark says so, or
        its ``spark-env.sh`` names one.
    """
    try:
        found = installed_java(environment).program
    except UnfitJava:
        return None
    home = environment.get("JAVA_HOME")
    chosen = f"{home}/bin/java" if home else shutil.which("java", path=environment.get("PATH", ""))
    if chosen and Path(chosen).resolve() == found.resolve():
        return None
    return str(found.resolve().parent.parent)


def parse_version(said: str) -> int | None:
    """Return the feature release out of what ``java -version`` says, or None."""
    match = _VERSION.search(said)
    return int(match.group(1)) if match else None


def parse_build(said: str) -> str:
    """Return what ``java -version`` says whatever its options are: names and numbers, no modes."""
    lines = [line for line in said.splitlines() if not line.startswith("Picked up ")]
    return "\n".join(_MODES.sub("", line) for line in lines)


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    home = environment.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        yield f"JAVA_HOME={home}", program if program.is_file() else None
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    yield "PATH", Path(on_path) if on_path else None
    tried = {Path(found).resolve() for found in (on_path, home and f"{home}/bin/java") if found}
    for program in _in_places(environment):
        real = program.resolve()  # One Java often has several names in a folder.
        if real not in tried:
            tried.add(real)
            yield "installed", program


def _in_places(environment: Mapping[str, str]) -> Iterator[Path]:
    """Return the programs of all Java homes in the usual places, or in those that are named."""
    named = environment.get(PLACES_VARIABLE)
    user = environment.get("HOME", "")
    for pattern in _USUAL_PLACES if named is None else named.split(os.pathsep):
        if pattern.startswith("~/") and not user:
            continue
        whole = re.sub("^~(?=/)", lambda _: glob.escape(user), pattern)
        for home in sorted(glob.glob(whole)):  # noqa: PTH207 - patterns begin at the root
            program = Path(home) / "bin" / "java"
            if os.access(program, os.X_OK) and program.is_file():
                yield program


def _ask_version(program: Path) -> str:
    answer = subprocess.run(
        [str(program), "-version"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_ANSWER_SECONDS,
        check=True,
    )
    return answer.stderr + answer.stdout
