"""What releases have stored is read for ever, and this one stores the same."""

from __future__ import annotations

import pytest
from stored_formats.case import SAMPLES, Case
from stored_formats.register import CASES, WITH_VERSIONS

WRITTEN = [case for case in CASES if case.write is not None]


def named(case: Case) -> str:
    return str(case.path.relative_to(SAMPLES))


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_sample_is_read_as_what_it_was_stored_for(case: Case) -> None:
    assert case.read(case.path.read_bytes()) == case.meaning()


@pytest.mark.parametrize("case", WRITTEN, ids=named)
def test_what_is_written_now_is_the_sample(case: Case) -> None:
    """If this fails, the format has changed: make it a new version, and let the old one be read."""
    assert case.write is not None
    assert case.plain(case.write()) == case.plain(case.path.read_bytes())


@pytest.mark.parametrize("case", [case for case in WITH_VERSIONS if case.newer], ids=named)
def test_a_newer_version_is_refused_with_words_that_say_so(case: Case) -> None:
    assert case.newer is not None
    with pytest.raises(Exception, match="a newer headgate wrote it"):
        case.read(case.newer(case.path.read_bytes()))


def test_each_sample_has_its_case() -> None:
    stored = {path for path in SAMPLES.rglob("*") if path.is_file()}

    assert stored == {case.path for case in CASES}
