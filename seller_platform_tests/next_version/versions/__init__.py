"""The migration of the made-up version."""
