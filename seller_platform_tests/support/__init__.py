"""Helpers that tests share: none of them is a test or a fixture."""
