"""What theory says: bounds, and weights that reach them."""
