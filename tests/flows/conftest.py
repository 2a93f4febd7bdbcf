from collections.abc import Callable

import pytest

from headgate.flows import DataflowErrors, Problem, parse_dataflow


@pytest.fixture
def problems() -> Callable[[str], tuple[Problem, ...]]:
    """All problems of a dataflow file's text; none if it can be used."""

    def problems_of(text: str) -> tuple[Problem, ...]:
        try:
            return parse_dataflow(text, "flow.yaml").warnings
        except DataflowErrors as errors:
            return errors.problems

    return problems_of
