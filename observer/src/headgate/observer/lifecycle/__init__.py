"""An observer as a process: from its configuration to its end."""
