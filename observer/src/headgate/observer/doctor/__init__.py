"""Why something does not work, found out by trying it."""
