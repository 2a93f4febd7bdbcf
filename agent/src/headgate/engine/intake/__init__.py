"""What stands between Kafka and cells: duplicates, gaps, rivals, and whose updates count."""
