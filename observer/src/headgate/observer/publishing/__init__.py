"""What has ended on its way to Kafka: batches, deliveries in order, topics."""
