"""Warm Spark sessions: of one dataflow, of several, of none yet."""
