"""Child processes of an agent: each answers frames, and can be ended with all that it started."""
