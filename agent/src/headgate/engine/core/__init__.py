"""The engine: from stimuli to instructions."""
