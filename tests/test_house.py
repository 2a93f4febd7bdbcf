"""The layout of the house: rooms, their public faces, and what must not be in any file."""

import ast
import importlib
import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE_ROOTS = {
    "observer": ROOT / "observer" / "src" / "headgate",
    "agent": ROOT / "agent" / "src" / "headgate",
}
ROOMS = {
    "observer": {"wire", "hbase", "events", "settings", "observer", "client"},
    "agent": {
        *("flows", "engine", "learning", "replay", "agent", "spark", "local", "cli"),
        *("incremental", "temporal", "testing"),
    },
}
ROOMS_TO_COME = {
    "observer": set[str](),
    "agent": {"console", "reuse"},
}
TESTS_WITHOUT_ROOM = {
    *("stack", "bench", "fuzz", "mutants", "worlds", "faults", "soak"),
    *("examples", "evaluation", "deploy", "house", "formats"),
}

MEANINGLESS_NAMES = re.compile(
    r"(^|_)(utils?|helpers?|common|misc|managers?|stuff|tools|lib)(_|$)", re.IGNORECASE
)

MAX_LINES = 500
"""Of a Python file: it is about one thing, and one thing is rarely longer."""
MAX_MODULES = 15
"""In a folder, without what makes it a package."""
MAX_METHODS = 40
"""Of a class, counted with those of its bases in the house."""


def rooms() -> Iterator[tuple[str, Path]]:
    """The rooms on disk; a folder without Python files is none."""
    for side, source in SOURCE_ROOTS.items():
        for folder in sorted(source.iterdir()):
            if folder.is_dir() and any(folder.rglob("*.py")):
                yield side, folder


def room_named(name: str) -> Path:
    return next(folder for _, folder in rooms() if folder.name == name)


ROOM_NAMES = sorted(folder.name for _, folder in rooms())


def python_files(*folders: Path) -> Iterator[Path]:
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if "__pycache__" not in path.parts:
                yield path


def put_aside(name: str) -> bool:
    """Whether it is what builds, caches and version control put aside."""
    hidden = name.startswith(".") and name not in {".ci", ".gitignore"}
    return hidden or name in {"__pycache__", "build", "dist"}


@cache
def house_files() -> tuple[Path, ...]:
    """Every file that belongs to the project; what was put aside is many times as much."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if not put_aside(name)]
        found += [Path(folder, name) for name in names if not put_aside(name)]
    kept = (path for path in found if path.is_file() and path.suffix not in {".so", ".pyc"})
    return tuple(sorted(kept))


def text_of(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")


@cache
def public_face(room: Path) -> list[str]:
    """The names in ``__all__``, as they are written."""
    for statement in ast.parse(text_of(room / "__init__.py")).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=names)):
                return [str(name.value) for name in names if isinstance(name, ast.Constant)]
    return []


def place(path: Path, line: int | None = None) -> str:
    where = str(path.relative_to(ROOT))
    return where if line is None else f"{where}:{line}"


def test_every_room_is_one_of_the_house():
    found = {(side, folder.name) for side, folder in rooms()}
    known = {(side, name) for side, names in ROOMS.items() for name in names}
    to_come = {(side, name) for side, names in ROOMS_TO_COME.items() for name in names}

    assert found <= known | to_come, "a new room belongs into the design first"
    assert known <= found


def test_the_namespace_has_nothing_of_its_own():
    loose = [
        place(path)
        for source in SOURCE_ROOTS.values()
        for path in source.parent.rglob("*")
        if path.is_file() and path.parent in {source, source.parent}
    ]

    assert loose == [], "headgate/ is a namespace over two source roots: code lives in rooms"


@pytest.mark.parametrize("name", ROOM_NAMES)
def test_room_has_a_public_face(name):
    face = room_named(name) / "__init__.py"

    assert face.is_file()
    assert ast.get_docstring(ast.parse(text_of(face))), "say what the room is for"
    assert public_face(room_named(name)), "list in __all__ what other rooms may import"


@pytest.mark.parametrize("name", ROOM_NAMES)
def test_room_keeps_what_its_face_promises(name):
    promised = public_face(room_named(name))
    room = importlib.import_module(f"headgate.{name}")

    assert [one for one in promised if not hasattr(room, one)] == []
    assert len(promised) == len(set(promised))


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements, at any depth; most nodes are expressions, which hold none."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            found = getattr(node, field, None)
            if isinstance(found, list):  # of an expression, as of a lambda, it is none
                waiting += found


class Import(NamedTuple):
    """One name that a file imports."""

    line: int
    module: str
    name: str | None
    """None where it is the module itself."""
    known_as: str


class HouseClass(NamedTuple):
    """What counts of a class."""

    name: str
    path: Path
    bases: list[str]
    methods: set[str]


class HouseFile(NamedTuple):
    """What counts of a file: syntax trees of all files at once cost three times the time."""

    imports: list[Import]
    classes: list[HouseClass]


@cache
def house_file(path: Path) -> HouseFile:
    """What is in a file, which is parsed once for all that asks."""
    imported: list[Import] = []
    classes: list[HouseClass] = []
    for node in statements(ast.parse(text_of(path), filename=str(path))):
        match node:
            case ast.Import(names=names):
                imported += [Import(node.lineno, one.name, None, one.name) for one in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                source = "." * level + (module or "")
                imported += [
                    Import(node.lineno, source, one.name, one.asname or one.name) for one in names
                ]
            case ast.ClassDef():
                classes.append(house_class(path, node))
    return HouseFile(imported, classes)


def house_class(path: Path, node: ast.ClassDef) -> HouseClass:
    return HouseClass(
        node.name,
        path,
        [ast.unparse(base).partition("[")[0] for base in node.bases],
        {one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)},
    )


def trespasses(path: Path, own: str | None) -> Iterator[str]:
    """What a file imports across rooms other than ``from headgate.ROOM import NAME``."""
    for line, module, name, _ in house_file(path).imports:
        parts = module.split(".")
        if module.startswith("."):
            yield f"{place(path, line)}: relative import of {module!r}"
        elif parts[0] != "headgate" or (own is not None and parts[1:2] == [own]):
            continue
        elif name is None or len(parts) != 2:
            yield f"{place(path, line)}: {module} is inside another room"
        elif name not in public_face(room_named(parts[1])):
            yield f"{place(path, line)}: {name} is not in __all__ of {module}"


def test_rooms_import_only_from_public_faces():
    found = [
        trespass
        for _, room in rooms()
        for path in python_files(room)
        for trespass in trespasses(path, room.name)
    ]

    assert found == []


def test_examples_import_only_from_public_faces():
    found = [
        trespass for path in python_files(ROOT / "examples") for trespass in trespasses(path, None)
    ]

    assert found == []


def test_what_stands_in_the_write_path_imports_nothing_that_decides():
    deciding = ROOMS["agent"] | ROOMS_TO_COME["agent"]

    found = [
        f"{place(path, line)}: {module}"
        for path in python_files(SOURCE_ROOTS["observer"])
        for line, module, *_ in house_file(path).imports
        if module.split(".")[0] == "headgate" and module.split(".")[1] in deciding
    ]

    assert found == []


def test_names_say_what_is_inside():
    named = (
        path for folder in MEASURED for path in folder.rglob("*") if "__pycache__" not in path.parts
    )

    assert [place(path) for path in named if MEANINGLESS_NAMES.search(path.stem)] == []


def test_tests_mirror_the_rooms():
    known = set().union(*ROOMS.values(), *ROOMS_TO_COME.values(), TESTS_WITHOUT_ROOM)
    folders = {
        path.parent.relative_to(ROOT / "tests").parts for path in python_files(ROOT / "tests")
    }

    assert {parts[0] for parts in folders if parts} - known == set()


MEASURED = (*SOURCE_ROOTS.values(), ROOT / "examples", ROOT / "evaluation", ROOT / "tests")


def test_files_are_about_one_thing():
    lengths = {place(path): text_of(path).count("\n") for path in python_files(*MEASURED)}
    longer = {name for name, length in lengths.items() if length > MAX_LINES}

    assert longer == set(), f"split what is over {MAX_LINES} lines"


def test_folders_can_be_taken_in_at_a_glance():
    counts = Counter(
        place(path.parent) for path in python_files(*MEASURED) if path.name != "__init__.py"
    )
    fuller = {folder for folder, count in counts.items() if count > MAX_MODULES}

    assert fuller == set(), f"divide what holds more than {MAX_MODULES} modules"


def test_classes_have_one_job():
    classes: dict[str, list[HouseClass]] = {}
    imported: dict[Path, dict[str, str]] = {}
    for path in python_files(*MEASURED):
        file = house_file(path)
        for one in file.classes:
            classes.setdefault(one.name, []).append(one)
        imported[path] = {
            one.known_as: one.module.rpartition(".")[2]
            for one in file.imports
            if one.name is not None and one.module.strip(".")
        }

    def methods(own: HouseClass) -> set[str]:
        found = set(own.methods)
        for name in own.bases:
            module = imported[own.path].get(name)
            for other in classes.get(name, ()):
                here = (
                    other.path == own.path
                    if module is None
                    else module in other.path.with_suffix("").parts
                )
                if here and other is not own:
                    found |= methods(other)
        return found

    larger = {
        name
        for name, found in classes.items()
        if any(len(methods(one)) > MAX_METHODS for one in found)
    }

    assert larger == set(), f"divide classes with more than {MAX_METHODS} methods"


def machine_paths() -> list[str]:
    """Directories that exist on this machine only, wherever the tests run."""
    here = [path for path in (ROOT, ROOT.parent, Path.home()) if len(path.parts) > 1]
    shared = {Path(name) for name in ("/opt", "/srv", "/usr", "/usr/src", "/tmp", "/var", "/home")}
    return [str(path) for path in here if path not in shared]


# Written with escapes, so that this file does not hold the names itself.
REGISTRIES = re.compile(
    r"pypi\.org|pythonhosted\.org|repo1?\.maven\.|registry\.npmjs\.|artifact[o]ry"
    r"|index\-url[ =]\S*//"
)
UNFINISHED = re.compile(r"\b(T[O]DO|F[I]XME|X[X]X)\b")


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    texts = ((path, text_of(path)) for path in house_files())
    return [
        f"{place(path, number)}: {line.strip()[:100]}"
        for path, text in texts
        if pattern.search(text)  # as of each line: none of the patterns knows where one ends
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_file_knows_this_machine():
    paths = "|".join(re.escape(path) for path in machine_paths())

    assert lines_with(re.compile(rf"(?<![\w.$}}/\-])(?:{paths})(?:/|\b)")) == []


def test_no_file_names_a_registry():
    assert lines_with(REGISTRIES) == [], "the machine's own settings say where packages come from"


def test_locks_name_no_host():
    locks = [*ROOT.glob("*.lock"), *(ROOT / "hbase-conf").rglob("*.lock.toml")]

    assert locks
    assert [place(path) for path in locks if "://" in text_of(path)] == []


REPLACED = re.compile(r"""errors=["'](?:replace|ignore)|code\([^()]*["'](?:replace|ignore)["']""")


def test_bytes_are_never_replaced_by_others():
    """Two rows, values or names would be one: ``key_text``, or ``backslashreplace`` for people."""
    product = tuple(f"{root}/src" for root in ("observer", "agent"))

    assert [line for line in lines_with(REPLACED) if line.startswith(product)] == []


def test_nothing_is_left_unfinished():
    assert lines_with(UNFINISHED) == []


ARCHITECTURE = ROOT / "docs" / "architecture.md"
_PLACE = re.compile(r"`((?:agent|observer)/src/headgate/[\w/.]+)`")


def test_the_picture_of_the_house_is_what_its_contracts_hold():
    contracts = tomllib.loads(text_of(ROOT / "pyproject.toml"))["tool"]["importlinter"]["contracts"]
    pure = next(one for one in contracts if one["id"] == "pure")["source_modules"]
    starred = {module.removeprefix("headgate.") for module in pure} - {"replay"}
    drawn = []
    for contract in (one for one in contracts if one["type"] == "layers"):
        [container] = contract["containers"]
        title = container.removeprefix("headgate").removeprefix(".") or "rooms"
        name = title
        for layer in contract["layers"]:
            rooms_of = layer.split(" | ")
            if title == "rooms":
                rooms_of = [f"{one} *" if one in starred else one for one in rooms_of]
            drawn.append(f"{name:16}{' | '.join(rooms_of)}")
            name = ""
        drawn.append("")

    assert text_of(ARCHITECTURE).split("```")[1].strip().splitlines() == drawn[:-1]


def test_all_places_that_the_picture_names_are_there():
    places = _PLACE.findall(text_of(ARCHITECTURE))

    assert len(places) > 20
    assert [one for one in places if not (ROOT / one).exists()] == []
