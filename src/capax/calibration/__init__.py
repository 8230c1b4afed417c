"""The ruler held against systems whose capacity is known."""
