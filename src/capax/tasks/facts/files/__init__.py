"""Files of facts: one module for each kind."""
