"""How busy the machines are on which steps run."""
