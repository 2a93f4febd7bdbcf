"""What a dataflow asks of its tables: watches, scans and reads, gates."""
