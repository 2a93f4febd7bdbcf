"""One action: its run, its clock, and what it has not consumed."""
