"""Dataflow files of every kind that an agent runs, and edits of them, by chance."""

from __future__ import annotations

import json
import random
from typing import Any

NAME = "flow"
INPUTS = ("in", "aside")
"""Tables that are fed from outside; an edit may take the second one away and bring it back."""
STEPS = ("first", "second", "third")
CODECS = ("number", "json $.v")


class DataflowFile:
    """A dataflow file as somebody writes it, and changes it.

    Args:
        chance: makes every choice.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._codec = chance.choice(CODECS)
        self._count = chance.choice(("rows", "rows", "cells"))
        self._all_columns = chance.random() < 0.3
        self._steps = STEPS[: chance.randint(1, len(STEPS))]
        self._constant = {name: self._of_step() for name in self._steps}
        self.has_aside = chance.random() < 0.8
        self.eager = False
        """Whether all limits are one update."""
        self.limits()
        self.waves()

    def _of_step(self) -> dict[str, Any]:
        """Return what no edit changes of a step."""
        chance = self._chance
        found: dict[str, Any] = {
            "retries": {
                "attempts": chance.randint(1, 4),
                "backoff": [chance.choice(("1 s", "5 s")), "20 s"],
            },
            "first_changes": chance.choice(("snapshot", "snapshot", "none")),
        }
        if chance.random() < 0.5:
            found["timeout"] = chance.choice(("30 s", "2 min"))
        return found

    def waves(self) -> None:
        """Have waves end in another way."""
        period = self._chance.choice((7, 25, 90))
        self._waves = self._chance.choice(("mark", f"every {period} s", f"quiet {period} s"))

    def limits(self) -> None:
        """Have other bounds, looked at in other moments."""
        self._bounds = {name: self._bounds_of(place) for place, name in enumerate(self._steps)}

    def _bounds_of(self, place: int) -> dict[str, Any]:
        chance = self._chance
        watched = ["input", "aside", "both"] if place == 0 else ["middle", "middle", "input"]
        names = dict.fromkeys(chance.choices(watched, k=chance.choice((0, 1, 1, 2))))
        bounds = {name: self._limit() for name in names}
        found: dict[str, Any] = {}
        if bounds:
            found["when"] = bounds
            found["combine"] = chance.choice(("all", "at-least-one", "majority"))
            found["evaluate"] = chance.choice(
                (["write"], ["action-end"], ["action-end"], ["write", "action-end"])
            )
            if chance.random() < 0.1:
                found["evaluate"] = ["every 20 s"]
        return found

    def _limit(self) -> dict[str, Any]:
        chance = self._chance
        found: dict[str, Any] = {}
        while not found:
            if chance.random() < 0.6:
                number = chance.choice((1, 2, 3, 8))
                some = (number, f"{chance.choice((10, 50, 100, 150))}%")
                found["sequence"] = chance.choice(some)
            if chance.random() < 0.3:
                found["time"] = chance.choice(("20 s", "2 min", "20 min"))
            if chance.random() < 0.2:
                found["value"] = chance.choice(("20%", {"relative": "40%"}))
        if chance.random() < 0.2:
            found["block"] = True
        return found

    def text(self) -> str:
        """Return the file: JSON, which is YAML too."""
        columns = "" if self._all_columns else " c:v"
        watched = {
            "input": [f"in{columns}"],
            "aside": [f"aside{columns}"],
            "both": [f"in{columns}", "aside c:v"],
            "middle": ["mid c:v"],
            "output": ["out c:v"],
        }
        if not self.has_aside:
            del watched["aside"]
            watched["both"] = watched["input"]
        containers = {
            name: {"group": items, "codec": self._codec, "count": self._count}
            for name, items in watched.items()
        }
        actions: dict[str, Any] = {
            "feed": {"input": [n for n in ("input", "aside") if n in watched]}
        }
        for place, name in enumerate(self._steps):
            actions[name] = self._step(place, name, watched)
        return json.dumps(
            {"name": NAME, "waves": self._waves, "containers": containers, "actions": actions}
        )

    def _step(self, place: int, name: str, watched: dict[str, list[str]]) -> dict[str, Any]:
        bounds = dict(self._bounds[name])
        when = {
            bound: {"sequence": 1} if self.eager else limit
            for bound, limit in bounds.get("when", {}).items()
            if bound in watched
        }
        if when:
            combine = "at-least-one" if self.eager else bounds["combine"]
            bounds |= {"when": when, "combine": combine}
        else:
            bounds = {}
        reads = (
            [c for c in ("input", "aside", "both") if c in watched] if place == 0 else ["middle"]
        )
        return {
            "step": f"steps:{name}",
            "after": "feed" if place == 0 else STEPS[place - 1],
            "reads": [*reads, *(c for c in when if c not in reads)],
            "writes": "middle" if place == 0 else "output",
            **self._constant[name],
            **bounds,
        }
