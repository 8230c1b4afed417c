"""Calibration: systems of known capacity, measured as any other."""
