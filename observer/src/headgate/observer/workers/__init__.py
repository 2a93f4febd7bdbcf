"""Several processes on one port: one above them, each with a share of the configuration."""
