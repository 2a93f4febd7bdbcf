"""What constructors are given: few things, and in one folder not the same ones again and again."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCES = (ROOT / "agent" / "src" / "headgate", ROOT / "observer" / "src" / "headgate")

MAX_ARGUMENTS = 7
MAX_COMMON_TYPES = 3
"""Of the product's own types, in the constructors of any two classes of a folder."""

MANY_ARGUMENTS = {
    "agent.dataflow.Commands": "each command of people concerns another part of a dataflow",
    "agent.dataflow.EngineDriver": "each kind of instruction goes to another part of a dataflow",
    "agent.dataflow.Reporting": "what people see is put together from all parts of a dataflow",
    "agent.launchers.warm.WarmSession": "what users set of a session, beside its port and clock",
    "engine.cells.Arrivals": "columns of one batch, which are read at the same position",
    "incremental.Stage": "what people write of a stage: each argument is a keyword of the papers",
    "local.processes.Ascent": "what a part of the stack is started with, all of it plain values",
    "local.processes.PartLauncher": "what all parts of the stack are started with",
    "observer.control.LeaseRenewer": "what a lease says of an observer, asked anew each time",
    "observer.embedded.EmbeddedWrites": "it stands in the place of the sessions of a whole service",
    "observer.publishing.Publisher": "its clock, its ways of being called later, and its limits",
    "observer.recording.Recorder": "its clocks and ways of being called later are functions",
    "observer.security.TlsServer": "the keys of the section of the configuration",
    "spark.ChangesReader": "what one read of changes needs to know of its run",
}
"""Classes with more arguments than ``MAX_ARGUMENTS``, and why each is one idea."""

MUCH_IN_COMMON = {
    "agent.dataflow": {"Commands", "Consumption", "EngineDriver", "Reporting"},
    "observer.sessions.requests": {"Answers", "Forwarder", "RequestDispatcher", "RequestIntake"},
}
"""Classes by folder that share more than ``MAX_COMMON_TYPES``.

Those of a dataflow meet the same parts from four sides: people's commands, people's questions,
Kafka's records and the engine's instructions. Those of requests are the steps that one request of
one connection takes.
"""


class Constructor(NamedTuple):
    """What a class is made of."""

    folder: str
    name: str
    arguments: int
    types: frozenset[str]
    """The product's own types among its arguments."""


@cache
def classes() -> tuple[tuple[str, ast.ClassDef], ...]:
    """All classes, with the folder of each as rooms are named."""
    return tuple(
        (".".join(path.parent.relative_to(source).parts), node)
        for source in SOURCES
        for path in sorted(source.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )


def constructors() -> Iterator[Constructor]:
    own = {node.name for _, node in classes()}
    for folder, node in classes():
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                given = method.args
                arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs][1:]
                names = {
                    part.id
                    for one in arguments
                    if one.annotation is not None
                    for part in ast.walk(one.annotation)
                    if isinstance(part, ast.Name)
                }
                yield Constructor(folder, node.name, len(arguments), frozenset(names & own))


def test_a_constructor_takes_few_arguments() -> None:
    many = {f"{one.folder}.{one.name}" for one in constructors() if one.arguments > MAX_ARGUMENTS}
    assert many == MANY_ARGUMENTS.keys(), "find the idea that the arguments have in common"


def test_classes_of_a_folder_are_not_made_of_the_same_things() -> None:
    by_folder: dict[str, list[Constructor]] = defaultdict(list)
    for one in constructors():
        by_folder[one.folder].append(one)
    found: dict[str, set[str]] = defaultdict(set)
    for folder, made in by_folder.items():
        for one, other in combinations(made, 2):
            if len(one.types & other.types) > MAX_COMMON_TYPES:
                found[folder] |= {one.name, other.name}
    assert found == MUCH_IN_COMMON, "one class was cut, or an idea is missing that they share"
