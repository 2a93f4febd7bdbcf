"""Holds a tree against a grammar and reports every difference."""

from __future__ import annotations

import re
from typing import assert_never

from headgate.flows.grammar.kinds import (
    Anything,
    Either,
    Kind,
    ListOf,
    MapOf,
    Numbers,
    RecordOf,
    Single,
)
from headgate.flows.grammar.problems import NAME_RULE, Findings, Position, nearest, suggestion
from headgate.flows.grammar.tree import Entry, Items, Mapping, Scalar, Tree

_NULL = "null"


def matched(tree: Tree, kind: Kind, findings: Findings) -> Tree | None:
    """Return what of the tree is of the kind; None if nothing is. The rest is reported as errors.

    In what is returned every part is of its kind, but required keys may be missing where an error
    was found.
    """
    match kind:
        case Anything():
            return tree
        case Single():
            return _single(tree, kind, findings)
        case ListOf():
            return _list(tree, kind, findings)
        case MapOf():
            return _map(tree, kind, findings)
        case RecordOf():
            return _record(tree, kind, findings)
        case Either():
            fitting = _alternative(tree, kind)
            if fitting is None:
                _refuse(tree, kind.what, findings)
                return None
            return matched(tree, fitting, findings)
        case _:
            assert_never(kind)


def _alternative(tree: Tree, kind: Either) -> Kind | None:
    forms = {
        Scalar: (Single, Anything),
        Items: (ListOf, Anything),
        Mapping: (RecordOf, MapOf, Anything),
    }[type(tree)]
    return next((one for one in kind.kinds if isinstance(one, forms)), None)


def _refuse(tree: Tree, what: str, findings: Findings) -> None:
    match tree:
        case Scalar(value=None):
            findings.error(tree.at, "there is no value here", f"write {what}, or remove the key")
        case Scalar():
            findings.error(tree.at, f"`{tree.text}` is not {what}", f"write {what}")
        case Items():
            findings.error(tree.at, f"a list stands here instead of {what}", f"write {what}")
        case Mapping():
            findings.error(tree.at, f"a mapping stands here instead of {what}", f"write {what}")


def _single(tree: Tree, kind: Single, findings: Findings) -> Scalar | None:
    if isinstance(tree, Scalar) and tree.value is None and tree.text and _NULL in kind.words:
        return Scalar(_NULL, _NULL, tree.at, tree.text_at)
    if not isinstance(tree, Scalar) or tree.value is None:
        _refuse(tree, kind.what, findings)
        return None
    value = tree.value
    if isinstance(value, bool):
        fits = kind.truth
    elif isinstance(value, str):
        by_pattern = kind.pattern is not None and re.fullmatch(kind.pattern, value) is not None
        fits = by_pattern or value in kind.words
    else:
        fits = kind.numbers is not None and _within(value, kind.numbers)
    if fits:
        return tree
    if not isinstance(value, str) and re.fullmatch(kind.pattern or "(?!)", tree.text):
        read_as = "true or false" if isinstance(value, bool) else "a number"
        findings.error(
            tree.at,
            f"`{tree.text}` is read as {read_as}, not as text",
            f'put it in quotes: "{tree.text}"',
        )
        return None
    if kind.why_not is not None:
        message, cure = kind.why_not(tree.text)
        findings.error(tree.at, f"`{tree.text}`: {message}", cure)
        return None
    meant = nearest(tree.text, kind.words)
    cure = f"did you mean `{meant}`? " if meant else ""
    message = (
        f"`{tree.text}` can't be {kind.what}" if kind.rule else f"`{tree.text}` is not {kind.what}"
    )
    findings.error(tree.at, message, f"{cure}{kind.rule or f'write {kind.what}'}")
    return None


def _within(value: float, numbers: Numbers) -> bool:
    if numbers.whole and not isinstance(value, int):
        return False
    if numbers.above is not None and value <= numbers.above:
        return False
    if numbers.at_least is not None and not value >= numbers.at_least:
        return False
    return numbers.at_most is None or value <= numbers.at_most


def _list(tree: Tree, kind: ListOf, findings: Findings) -> Items | None:
    if not isinstance(tree, Items):
        _refuse(tree, kind.what, findings)
        return None
    few = len(tree.values) < kind.at_least
    many = kind.at_most is not None and len(tree.values) > kind.at_most
    if few or many:
        findings.error(
            tree.at,
            f"the list has {len(tree.values)} values: expected {kind.what}",
            f"write {kind.what}",
        )
        return None
    kept = [matched(value, kind.item, findings) for value in tree.values]
    return Items(tuple(value for value in kept if value is not None), tree.at)


def _map(tree: Tree, kind: MapOf, findings: Findings) -> Mapping | None:
    if not isinstance(tree, Mapping):
        _refuse(tree, kind.what, findings)
        return None
    if len(tree.entries) < kind.at_least:
        findings.error(tree.at, f"there is no {kind.noun} here", f"write {kind.what}")
    kept: dict[str, Entry] = {}
    for name, entry in tree.entries.items():
        if not re.fullmatch(kind.name, name):
            findings.error(
                entry.key.at,
                f"`{name}` can't name a {kind.noun}",
                NAME_RULE,
            )
        value = matched(entry.value, kind.value, findings)
        if value is not None:
            kept[name] = Entry(entry.key, value)
    return Mapping(kept, tree.at)


def _record(tree: Tree, kind: RecordOf, findings: Findings) -> Mapping | None:
    if not isinstance(tree, Mapping):
        _refuse(tree, kind.what, findings)
        return None
    kept: dict[str, Entry] = {}
    for name, entry in tree.entries.items():
        key = kind.keys.get(name)
        if key is None:
            cure = kind.cures.get(name) or suggestion(name, kind.keys, "key")
            findings.error(entry.key.at, f"{kind.what} has no key `{name}`", cure)
            continue
        value = matched(entry.value, key.kind, findings)
        if value is not None:
            kept[name] = Entry(entry.key, value)
    _check_keys(tree, kind, findings)
    return Mapping(kept, tree.at)


def _check_keys(tree: Mapping, kind: RecordOf, findings: Findings) -> None:
    there = tree.entries
    for name, key in kind.keys.items():
        if key.required and name not in there:
            _missing(tree, kind, f"no `{name}`", f"add `{name}:` ({key.doc})", findings)
    if kind.one_of:
        found = [name for name in there if name in kind.one_of]
        if not found:
            names = " nor ".join(f"`{name}`" for name in kind.one_of)
            _missing(tree, kind, f"neither {names}", "add one of them", findings)
        for extra in found[1:]:
            _clash(there[extra].key.at, found[0], extra, findings)
    if kind.some_of and not any(name in there for name in kind.some_of):
        names = ", ".join(f"`{name}`" for name in kind.some_of)
        _missing(tree, kind, f"none of {names}", "add at least one of them", findings)
    for first, second in kind.apart:
        if first in there and second in there:
            _clash(there[second].key.at, first, second, findings)
    for present, absent in (*kind.together, *(pair[::-1] for pair in kind.together), *kind.needs):
        if present in there and absent not in there:
            findings.error(
                there[present].key.at,
                f"`{present}` needs `{absent}` beside it",
                f"add `{absent}:` ({kind.keys[absent].doc})",
            )


def _missing(tree: Mapping, kind: RecordOf, names: str, cure: str, findings: Findings) -> None:
    # A misspelt key is reported already: what it was meant to be is not reported as missing, too.
    if any(name not in kind.keys and nearest(name, kind.keys) for name in tree.entries):
        return
    findings.error(tree.at, f"{kind.what} has {names}", cure)


def _clash(at: Position, first: str, second: str, findings: Findings) -> None:
    findings.error(at, f"`{second}` can't stand beside `{first}`", f"keep `{first}` or `{second}`")
