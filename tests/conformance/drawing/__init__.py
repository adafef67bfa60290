"""Drawing scenarios: every rule, often at the very edge where it decides. The same seed draws the same objects."""
