"""Which dataflows run here, on which threads, and with what."""
