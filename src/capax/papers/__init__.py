"""The papers' experiments as runs."""
