"""Runs of a dataflow: attempts on their way, and the records of those before."""
