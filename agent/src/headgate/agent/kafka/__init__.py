"""What an agent reads from Kafka and publishes there."""
