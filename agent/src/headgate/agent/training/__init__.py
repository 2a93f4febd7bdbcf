"""Models of learned triggers: what they are trained on, by whom, and where they are kept."""
