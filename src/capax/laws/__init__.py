"""How capacity depends on the architecture, fitted to measurements."""
