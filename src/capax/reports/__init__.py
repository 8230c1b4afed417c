"""What was measured, shown."""
