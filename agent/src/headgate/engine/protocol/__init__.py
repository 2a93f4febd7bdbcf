"""Stimuli, which the engine handles, and instructions, which it returns."""
