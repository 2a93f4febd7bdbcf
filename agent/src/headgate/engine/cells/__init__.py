"""What is known of the cells of containers, and what nobody has consumed of them."""
