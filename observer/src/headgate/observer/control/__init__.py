"""What the control topic asks of an observer: watches, gates, barriers; and its lease there."""
