"""Java is found where people say it is, and an unfit one is refused with what to install."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headgate.local import JavaUnfitError, find_java
from headgate.settings.java import PLACES_VARIABLE, java_home_for_spark, parse_build, parse_version


def make_java(folder: Path, said: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_412"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.1" 2021-10-19', 17),
        ("command not found", None),
    ],
)
def test_the_feature_release_is_read_out_of_what_java_says(said: str, version: int | None) -> None:
    assert parse_version(said) == version


DEBIAN = """openjdk version "17.0.15" 2025-04-15
OpenJDK Runtime Environment (build 17.0.15+6-Debian-1deb12u1)
OpenJDK 64-Bit Server VM (build 17.0.15+6-Debian-1deb12u1, {modes})"""


def test_a_build_is_the_same_whatever_options_it_is_started_with() -> None:
    plain = parse_build(DEBIAN.format(modes="mixed mode, sharing"))
    assert plain.count("17.0.15+6-Debian-1deb12u1)") == 2
    assert plain == parse_build(
        "Picked up JAVA_TOOL_OPTIONS: -XX:TieredStopAtLevel=1\n"
        + DEBIAN.format(modes="mixed mode, emulated-client, sharing")
    )
    assert plain != parse_build(DEBIAN.format(modes="mixed mode").replace("+6", "+7"))


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", 'openjdk version "21.0.2"')
    path = make_java(tmp_path / "path", 'openjdk version "17.0.2"')
    found = find_java({"JAVA_HOME": str(home), "PATH": f"{path}/bin:/usr/bin:/bin"})
    assert (found.program, found.version) == (home / "bin" / "java", 21)


def test_an_unfit_java_home_gives_way_to_a_fit_one_on_path(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", 'openjdk version "25"')
    path = make_java(tmp_path / "path", 'openjdk version "17.0.2"')
    found = find_java({"JAVA_HOME": str(home), "PATH": f"{path}/bin:/usr/bin:/bin"})
    assert found.program == path / "bin" / "java"


def test_without_java_the_error_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(JavaUnfitError, match=r"17 or 21\. Install one .*openjdk-17"):
        find_java({"PATH": str(tmp_path), PLACES_VARIABLE: ""})


def test_an_unfit_java_is_named_with_its_version(tmp_path: Path) -> None:
    home = make_java(tmp_path, 'openjdk version "11.0.2"')
    with pytest.raises(JavaUnfitError, match="is Java 11"):
        find_java({"JAVA_HOME": str(home), "PATH": "", PLACES_VARIABLE: ""})


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(JavaUnfitError, match=f"JAVA_HOME={tmp_path}: no java there"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "", PLACES_VARIABLE: ""})


def test_a_java_that_does_not_run_is_named(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(JavaUnfitError, match="does not run"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "", PLACES_VARIABLE: ""})


def test_an_installed_java_is_found_where_the_variables_name_another(tmp_path: Path) -> None:
    unfit = make_java(tmp_path / "jvm" / "java-25", 'openjdk version "25.0.1"')
    fit = make_java(tmp_path / "jvm" / "java-17", 'openjdk version "17.0.2"')
    (tmp_path / "jvm" / "default").symlink_to(unfit)
    places = f"{tmp_path}/none/*:{tmp_path}/jvm/*"
    at_home = {"JAVA_HOME": str(unfit), "PATH": "", PLACES_VARIABLE: places}
    on_path = {"PATH": f"{unfit}/bin", PLACES_VARIABLE: places}
    for each in (at_home, on_path):
        assert find_java(each).program.resolve() == fit / "bin" / "java"


def test_spark_is_given_a_fit_java_where_it_would_take_another(tmp_path: Path) -> None:
    unfit = make_java(tmp_path / "jvm" / "java-25", 'openjdk version "25.0.1"')
    fit = make_java(tmp_path / "jvm" / "java-17", 'openjdk version "17.0.2"')
    installed, nothing = {PLACES_VARIABLE: f"{tmp_path}/jvm/*"}, {PLACES_VARIABLE: ""}

    for given, home in (
        ({"JAVA_HOME": str(unfit), "PATH": "", **installed}, str(fit)),
        ({"JAVA_HOME": str(unfit), "PATH": f"{fit}/bin", **nothing}, str(fit)),
        ({"PATH": f"{unfit}/bin", **installed}, str(fit)),
        ({"PATH": "", **installed}, str(fit)),
        ({"JAVA_HOME": str(fit), "PATH": f"{unfit}/bin", **installed}, None),
        ({"PATH": f"{fit}/bin", **nothing}, None),
        ({"JAVA_HOME": str(unfit), "PATH": f"{unfit}/bin", **nothing}, None),
    ):
        assert java_home_for_spark(given) == home, given


def test_version_managers_of_the_user_are_looked_into(tmp_path: Path) -> None:
    user = tmp_path / "[ann]"
    home = make_java(user / ".sdkman" / "candidates" / "java" / "21-tem", 'version "21.0.2"')
    places = f"~/.sdkman/candidates/java/*{os.pathsep}/usr/lib/none/*"
    found = find_java({"PATH": "", "JAVA_HOME": "", "HOME": str(user), PLACES_VARIABLE: places})
    assert (found.program, found.version) == (home / "bin" / "java", 21)


def test_each_installed_java_that_is_unfit_is_named_once(tmp_path: Path) -> None:
    unfit = make_java(tmp_path / "jvm" / "java-25", 'openjdk version "25.0.1"')
    (tmp_path / "jvm" / "default").symlink_to(unfit)
    with pytest.raises(JavaUnfitError) as caught:
        find_java({"PATH": "", PLACES_VARIABLE: f"{tmp_path}/jvm/*"})
    assert str(caught.value).count("is Java 25") == 1
