"""Laws asked and inverted: what an architecture holds, and which architectures hold a target."""
