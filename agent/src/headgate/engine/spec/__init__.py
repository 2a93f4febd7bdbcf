"""Dataflows as plain data: actions, containers, bounds, conditions over them."""
