"""Runnables: which increments a run of a stage reads, and which it removes."""
