"""Output of ``headgate flow explain``: few bounds in a sentence, many of them in a list."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Final

from headgate.cli.flow.views import Line

_IN_A_SENTENCE: Final = 3
"""Reasons, or bounds, up to which a sentence can be read."""
_INDENT: Final = "  "
_NARROWEST: Final = 40
"""Columns of a terminal in which lines are wrapped."""


def explain_lines(explanation: Any, width: int | None) -> Iterator[Line]:
    """Yield why each action last ran and what is missing for its next run.

    Args:
        explanation: as an agent returns it.
        width: columns of the terminal; None where lines may be of any length.
    """
    # An agent that has not been updated yet returns no reads.
    reads = {each["container"]: each["words"] for each in explanation.get("reads", ())}
    for action in explanation["actions"]:
        yield Line(f"{action['action']} ({action['state']})", "bold")
        yield from _condition(action, width)
        # An agent that has not been updated yet says nothing of runnables.
        for line in action.get("runnable_failure", "").splitlines():
            yield Line(f"{_INDENT}{line}", "red")
        for line in action["policy"]["words"].splitlines() if action["policy"] else ():
            yield from _wrapped(line, width, 1)
        for adjusted in action["adjusted"]:
            yield from _wrapped(adjusted["words"], width, 1)
        for container in dict.fromkeys(each["container"] for each in action["updates"]):
            if reads.get(container):
                yield from _wrapped(reads[container], width, 1)
    for container in explanation["containers"]:
        number = container["dead_letters"]
        if number:
            values = "1 value" if number == 1 else f"{number} values"
            text = (
                f"{container['container']}: {values} could not be read by the declared codec; "
                "each counted as a change"
            )
            yield from _wrapped(text, width, 0, "yellow")


def _condition(action: Any, width: int | None) -> Iterator[Line]:
    """Yield what is said of an action, the reasons and bounds of which there are many in lists."""
    words, lists = action["words"], []
    for run, said, result in _causes(action):
        reached = _reached(result)
        if len(reached) > _IN_A_SENTENCE and said in words:
            words = words.replace(said, f"{len(reached)} limits were reached")
            lists.append((f"Run {run} was launched because:", [(1, one) for one in reached]))
    result, missing = action.get("result"), action.get("missing", "")
    if result and _leaves(result) > _IN_A_SENTENCE and missing.startswith("needs "):
        sentence = f" The next run {missing}."
        if sentence in words:
            words = words.replace(sentence, "")
            lists.append((f"The next run needs {_group(result)}:", list(_parts(result, 1))))
    yield from _wrapped(words, width, 1)
    for heading, entries in lists:
        yield from _wrapped(heading, width, 1)
        for depth, entry in entries:
            yield from _wrapped(f"- {entry}", width, 1 + depth)


def _causes(action: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield run, words and condition of the causes that are named; runs asked for have none."""
    last, active = action.get("last"), action.get("active")
    if last and last["cause"]["result"]:
        yield last["run"], last["cause"]["words"], last["cause"]["result"]
    # An agent that has not been updated yet returns no result of the run under way.
    if active and active.get("result") and (last is None or last["run"] != active["run"]):
        yield active["run"], active["words"], active["result"]


def _leaves(result: Any) -> int:
    return sum(map(_leaves, result["parts"])) if result["type"] == "group" else 1


def _reached(result: Any) -> tuple[str, ...]:
    """Return what was reached, one text a limit."""
    found: list[str] = []
    if result["type"] == "group":
        found += (words for part in result["parts"] for words in _reached(part))
    elif result["type"] == "bound":
        found += (vector["words"] for vector in result["vectors"] if vector["reached"])
    return tuple(dict.fromkeys(found))


def _group(result: Any) -> str:
    """Return how many parts of a group are needed, in words."""
    parts = len(result["parts"])
    reached = sum(part["reached"] for part in result["parts"])
    needed = "all" if result["needed"] == parts else result["needed"]
    return f"{needed} of {parts}, of which {reached} {'is' if reached == 1 else 'are'} reached"


def _parts(result: Any, depth: int) -> Iterator[tuple[int, str]]:
    for part in result["parts"]:
        if part["type"] == "group":
            yield depth, f"{_group(part)}:"
            yield from _parts(part, depth + 1)
        elif part["type"] == "bound":
            yield depth, f"{part['bound']}: {_bound(part)}"
        elif part["type"] == "predecessors":
            yield depth, f"the end of {', '.join(part['waiting'] or part['ended'])}"
        else:
            yield depth, part["missing"] or part["words"]


def _bound(part: Any) -> str:
    if part["reached"]:
        return "reached: " + ", ".join(v["words"] for v in part["vectors"] if v["reached"])
    return " or ".join(vector["missing"] or vector["words"] for vector in part["vectors"])


def _wrapped(text: str, width: int | None, depth: int, style: str = "") -> Iterator[Line]:
    indent = _INDENT * depth
    if width is None:
        yield Line(indent + text, style)
        return
    following = indent + (_INDENT if text.startswith("- ") else "")
    for line in textwrap.wrap(
        text,
        max(width, _NARROWEST),
        initial_indent=indent,
        subsequent_indent=following,
        break_on_hyphens=False,
    ):
        yield Line(line, style)
