"""Engines with a scripted clock, and what is always true of an engine."""
