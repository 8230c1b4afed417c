"""Figures of runs: what they show as plain data, and how matplotlib and plotly draw it."""
