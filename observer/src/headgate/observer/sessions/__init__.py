"""Clients: their connections, and the listeners that they come to."""
