"""What an observer counts and what it logs."""
