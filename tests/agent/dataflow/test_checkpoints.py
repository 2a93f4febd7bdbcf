"""What a checkpoint has of the service's own state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from simulation import World

from headgate.agent.state.saved_state import FlowProgress


def test_each_field_of_the_progress_is_saved_by_one_part(make_world: Callable[..., World]) -> None:
    agent = make_world().start_agent()
    assert agent.runtime is not None
    parts = agent.runtime._checkpoints._parts
    saved = Counter(field for part in parts for field in part.saved())
    assert saved == Counter(FlowProgress.__struct_fields__)
