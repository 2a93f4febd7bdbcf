"""Connectors: increments queued between stages, and who waits for whom."""
