"""Weights with their data and what they are said to reach, in one file, and whether that holds."""
