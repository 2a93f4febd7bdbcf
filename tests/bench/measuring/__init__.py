"""What the comparison of the observer with others is made of."""
