"""Values that several sections hold: texts, names, durations and truth."""

from __future__ import annotations

from headgate.flows.grammar.kinds import ANY_TEXT, Either, ListOf, Numbers, Single
from headgate.flows.grammar.problems import NAME_RULE
from headgate.flows.grammar.quantities import (
    DURATION,
    LEAST_SECONDS,
    MOST_SECONDS,
    why_no_duration,
)

NAME = r"[A-Za-z_][A-Za-z0-9_.\-]{0,99}"
"""Pattern of the names of dataflows, containers, actions, bounds and profiles."""


def text_value(what: str) -> Single:
    """Return the kind of a text that is not empty."""
    return Single(what, pattern=ANY_TEXT)


def name_value(noun: str) -> Single:
    """Return the kind of a name: that of ``noun``, as messages have it."""
    return Single(f"the name of {noun}", pattern=NAME, rule=NAME_RULE)


def names_value(noun: str, nouns: str) -> Either:
    """Return the kind of a name or a list of names, which may be empty."""
    one = name_value(noun)
    return Either(
        f"{one.what} or a list of {nouns}", (one, ListOf(one, f"a list of {nouns}", at_least=0))
    )


DURATION_VALUE = Single(
    "a duration such as `30 s` or `5 min`",
    pattern=DURATION,
    numbers=Numbers(at_least=LEAST_SECONDS, at_most=MOST_SECONDS),
    why_not=why_no_duration,
)
"""A time span of a millisecond or more."""

TRUTH_VALUE = Single("true or false", truth=True)
"""YAML's true or false."""
