"""How many items are remembered: protocols, chance, units."""
