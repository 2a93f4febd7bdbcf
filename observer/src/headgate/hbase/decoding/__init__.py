"""Requests that write, decoded into columns, and what the services declare of arguments."""
