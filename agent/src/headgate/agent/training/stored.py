"""Stored pairs as trainings take them: of successive waves, measured alike, and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from headgate.agent.errors import AgentError
from headgate.agent.training.pairs import PairKey, WavePairs, set_of
from headgate.learning import (
    FEATURES,
    MOST_LABELS,
    TRAINED_AGES,
    ErrorMetric,
    LabelledRows,
    Model,
    OutputPairs,
    Spacing,
    decode_model,
    log_ratio,
)
from headgate.settings import shell_word

_AGE: Final = FEATURES.index("age")
"""Column of the waves between the two of a pair."""


class UnusablePairs(AgentError):
    """Pairs do not do for a training; the message says why and what to do."""


class Demand(Struct, frozen=True):
    """What pairs of an output are to be of."""

    metric: ErrorMetric
    """Of its errors."""
    above: tuple[str, ...]
    """The containers from which it is predicted, none of them opaque."""
    reach: int = 1
    """How many waves the two of a pair are apart at most."""


class _Stretch(Struct, frozen=True):
    submitted: int
    waves: tuple[int, ...]
    """One after the other, but for waves in which a run was under way."""
    sets: Mapping[str, str]
    """By output."""


def wave_before(pairs: WavePairs) -> int:
    """Return the wave of the training that precedes that of some pairs."""
    return pairs.key.wave - int(pairs.features[0, _AGE])


def stretch_of(
    keys: Sequence[PairKey],
    demands: Mapping[str, Demand],
    waves: int,
    before: Callable[[PairKey], int] = lambda key: key.wave - 1,
) -> tuple[PairKey, ...]:
    """Return the newest pairs of enough successive waves, or else of the longest stretch of them.

    Args:
        keys: of all pairs of a dataflow.
        demands: by output: pairs of all of them are of the same waves.
        waves: that a training asks for; the first of them has no pair.
        before: returns of a pair what ``wave_before`` does; asked where waves are missing.

    Raises:
        UnusablePairs: an output has none, or none that fit.
    """
    groups: dict[str, dict[tuple[int, str], dict[str, set[int]]]] = {o: {} for o in demands}
    for key in keys:
        if key.output in groups:
            group = groups[key.output].setdefault((key.submitted, key.set), {})
            group.setdefault(key.container, set()).add(key.wave)
    usable = {output: _usable(output, demand, groups[output]) for output, demand in demands.items()}
    output, demand = next(iter(demands.items()))

    def follows(stretch: _Stretch, wave: int, last: int) -> bool:
        if not 1 < wave - last <= demand.reach:
            return wave - last == 1
        place = stretch.submitted, wave, stretch.sets[output]
        return before(PairKey(keys[0].dataflow, output, demand.above[0], *place)) == last

    shared = [_shared(first, usable) for first in usable[output]]
    stretches = [part for each in shared if each for part in _parts(each, follows)]
    if not stretches:
        raise UnusablePairs(
            f"the pairs of {_named(demands)} have no waves in common; train each for itself, with "
            "`--output`"
        )
    long = [each for each in stretches if len(each.waves) >= waves - 1]
    if long:
        chosen = max(long, key=lambda each: (each.submitted, each.waves[-1]))
    else:
        chosen = max(stretches, key=lambda each: (len(each.waves), each.submitted))
    return tuple(
        PairKey(keys[0].dataflow, output, container, chosen.submitted, wave, chosen.sets[output])
        for output, demand in demands.items()
        for container in demand.above
        for wave in chosen.waves[max(0, len(chosen.waves) - waves + 1) :]
    )


def _named(outputs: Iterable[str]) -> str:
    return " and ".join(f"`{output}`" for output in outputs)


def _usable(
    output: str, demand: Demand, groups: Mapping[tuple[int, str], Mapping[str, set[int]]]
) -> dict[tuple[int, str], set[int]]:
    """Return the waves of an output that it has pairs of from every container, by set."""
    if not groups:
        raise UnusablePairs(
            f"no pairs of `{output}` are kept; take some in with `headgate flow knowledge --import`"
        )
    named = {alike for _, alike in groups if alike}
    if not named:
        raise UnusablePairs(
            f"all pairs of `{output}` were kept by a version that did not note their metric and "
            "levels; train on a recording, or take in what a newer version has exported"
        )
    fit = {place: group for place, group in groups.items() if _is_of(place[1], demand.metric)}
    if not fit:
        others = sorted({alike.rpartition("-")[0] for alike in named})
        raise UnusablePairs(
            f"the pairs of `{output}` are of errors {', '.join(others)}, and the dataflow bounds "
            f"{demand.metric.value}; bound the same, or take in pairs of {demand.metric.value}"
        )
    found = {
        place: set.intersection(*(group.get(c, set()) for c in demand.above))
        for place, group in fit.items()
    }
    if not any(found.values()):
        seen = {container for group in fit.values() for container in group}
        missing = [container for container in demand.above if container not in seen]
        raise UnusablePairs(
            f"no pairs of `{output}` are of waves that were seen from all of {_named(demand.above)}"
            + (f"; {_named(missing)} is in none" if missing else "")
            + "; take in pairs of a dataflow with the same containers"
        )
    return {place: waves for place, waves in found.items() if waves}


def _is_of(alike: str, metric: ErrorMetric) -> bool:
    return alike.rpartition("-")[0] == metric.value


def _shared(
    first: tuple[int, str], usable: Mapping[str, Mapping[tuple[int, str], set[int]]]
) -> _Stretch | None:
    """Return the waves that a set of the first output shares with all others; None without any."""
    submitted = first[0]
    output, *others = usable
    sets, waves = {output: first[1]}, usable[output][first]
    for other in others:
        found = {alike: each for (when, alike), each in usable[other].items() if when == submitted}
        if not found:
            return None
        sets[other] = max(found, key=lambda alike: (len(found[alike] & waves), alike))
        waves = waves & found[sets[other]]
    return _Stretch(submitted, tuple(sorted(waves)), sets) if waves else None


def _parts(whole: _Stretch, follows: Callable[[_Stretch, int, int], bool]) -> Iterable[_Stretch]:
    """Yield the parts of some waves in which each follows the one before."""
    begin, waves = 0, whole.waves
    for end in range(1, len(waves) + 1):
        if end == len(waves) or not follows(whole, waves[end], waves[end - 1]):
            yield _Stretch(whole.submitted, waves[begin:end], whole.sets)
            begin = end


def output_pairs_of(pairs: Sequence[WavePairs], horizon: int) -> OutputPairs:
    """Return the pairs of an output as training takes them.

    Args:
        pairs: of waves that follow one another, the same for each container; one at least.
        horizon: how many waves the two of a pair are apart at most.

    Raises:
        UnusablePairs: they look back on fewer waves than the horizon, were not measured alike, or
            have numbers that are none.
    """
    by_container: dict[str, list[WavePairs]] = {}
    for one in sorted(pairs, key=lambda one: one.key):
        by_container.setdefault(one.key.container, []).append(one)
    check_alike(pairs)
    tables, levels, found = {}, {}, []
    spacing = _spacing(next(iter(by_container.values())), horizon)
    most = spacing.horizon
    there = spacing.there(most)[:, 1:].sum(1)
    for container, rows in by_container.items():
        known = np.full((len(rows) + 1, most + 1), np.nan)
        known[:, 0] = 0.0
        table = np.zeros((*known.shape, rows[0].features.shape[1]), np.float32)
        for place, one in enumerate(rows, 1):
            ages = int(there[place])
            if len(one.errors) < ages:
                raise UnusablePairs(
                    f"pairs of `{one.key.output}` look back on {len(one.errors)} waves, and the "
                    f"dataflow's horizon is {horizon}; lower it, or train on a recording"
                )
            known[place, 1 : ages + 1] = one.errors[:ages]
            table[place, 1 : ages + 1] = one.features[:ages]
        tables[container] = table
        found.append(known)
        basis = rows[0].basis
        levels[container] = np.array(() if basis is None else basis.levels)
    if not all(np.array_equal(found[0], other, equal_nan=True) for other in found[1:]):
        raise _spoiled(pairs[0].key, "have other errors from one container than from another")
    times = [one.basis.time for one in next(iter(by_container.values())) if one.basis is not None]
    names = {container: FEATURES[: table.shape[-1]] for container, table in tables.items()}
    return OutputPairs(found[0], tables, levels, names, times[0], times[-1], spacing)


def _spacing(rows: Sequence[WavePairs], reach: int) -> Spacing:
    """Return the spacing of the waves of pairs, the first before them included."""
    numbers = [wave_before(rows[0]), *(one.key.wave for one in rows)]
    for one, last in zip(rows, numbers, strict=False):
        if wave_before(one) != last:
            raise _spoiled(one.key, f"do not follow those at wave {last}")
    return Spacing(np.array(numbers, np.int64), reach)


def keys_of_models(keys: Iterable[PairKey], models: Mapping[str, bytes]) -> tuple[PairKey, ...]:
    """Return the keys of the pairs that models were trained on.

    Args:
        keys: of all pairs of a dataflow.
        models: by output.

    Raises:
        UnusableModel: one of the models does not do.
    """
    sets = {}
    for output, data in models.items():
        model = decode_model(data)
        levels = {name: each.levels for name, each in model.containers.items()}
        if isinstance(model.metric, ErrorMetric):  # no others are kept with what they are
            known = next(iter(model.containers.values()))
            features = len(known.forest.features) - bool(known.own)
            sets[output] = set_of(model.metric, levels, features)
    return tuple(key for key in keys if sets.get(key.output) == key.set)


def rows_of(pairs: Sequence[WavePairs], model: Model) -> dict[str, LabelledRows]:
    """Return pairs that a model was trained on, by container, so many as a fit takes.

    They are of the ages that training takes, too: of all ages most would be of such as hardly a run
    is decided at, and a model would be fitted to fewer that matter.

    Raises:
        UnusablePairs: a container has none, or they say of themselves what they are not.
    """
    check_alike(pairs)
    found = {}
    for container in model.containers:
        own = [one for one in pairs if one.key.container == container]
        if not own:
            raise UnusablePairs(
                f"no pairs are stored of `{model.output}` from `{container}` that its model was "
                "trained on; train it again"
            )
        places = [TRAINED_AGES[len(one.errors) >= TRAINED_AGES] - 1 for one in own]
        rows = np.concatenate([one.features[at] for one, at in zip(own, places, strict=True)])
        errors = np.concatenate([one.errors[at] for one, at in zip(own, places, strict=True)])
        logs = log_ratio(errors, model.bound)
        found[container] = LabelledRows(rows, logs).sample(MOST_LABELS)
    return found


def check_alike(pairs: Sequence[WavePairs]) -> None:
    """Refuse pairs of an output that say of themselves what they are not.

    Raises:
        UnusablePairs: see ``output_pairs_of``.
    """
    levels: dict[str, tuple[float, ...]] = {}
    for one in pairs:
        basis = one.basis
        if basis is None or levels.setdefault(one.key.container, basis.levels) != basis.levels:
            raise _spoiled(one.key, "do not say by which levels they were measured, or by several")
        if one.features.shape[1] != pairs[0].features.shape[1]:
            raise _spoiled(one.key, "have not the features of the others")
        if not np.isfinite(one.features).all() or (one.errors < 0).any():
            raise _spoiled(one.key, "have features or errors that are none")
    metrics = {one.basis.metric for one in pairs if one.basis is not None}
    values = {container: np.array(each) for container, each in levels.items()}
    alike = {set_of(metric, values, pairs[0].features.shape[1]) for metric in metrics}
    if {one.key.set for one in pairs} != alike:
        raise _spoiled(pairs[0].key, "are not of the metric and the levels of their set")


def _spoiled(key: PairKey, words: str) -> UnusablePairs:
    return UnusablePairs(
        f"pairs of `{key.output}` from `{key.container}` at wave {key.wave} {words}; delete them "
        f"with `headgate flow knowledge {shell_word(key.dataflow)} --trim 0` and take in others"
    )
