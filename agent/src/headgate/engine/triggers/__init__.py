"""When an action runs: policies, and what they measure."""
