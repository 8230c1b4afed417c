"""What capax is faster than, and by how much: paired in one run, medians, one CPU thread."""
