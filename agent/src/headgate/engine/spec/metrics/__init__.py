"""How far a container has moved since a cut: a file for each metric, and the table of them."""
