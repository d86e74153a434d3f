"""Figures, each repeated by one command; none of them is a test."""
