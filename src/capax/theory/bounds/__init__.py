"""What theory proves, or others measured, of what a model remembers: a table of bounds."""
