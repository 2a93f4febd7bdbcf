"""From recorded waves to models: forests, thresholds, and the test phase."""
