"""The migrations of the made-up versions."""
