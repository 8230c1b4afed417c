"""Checks: of a model, of what a bound assumes, of what a trained layer does."""
