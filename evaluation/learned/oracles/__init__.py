"""Oracles that run each step as late as its error bound allows: the most that can be saved."""
