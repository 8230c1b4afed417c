"""Who remembers: ensembles of models."""
