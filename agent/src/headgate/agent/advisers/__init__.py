"""Advisers of trigger policies: what these have worked out outside the engine."""
