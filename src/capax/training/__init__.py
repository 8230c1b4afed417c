"""How members learn: the loop, when it stops, and on which processes."""
