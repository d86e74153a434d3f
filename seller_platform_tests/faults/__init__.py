"""Faults: a proxy that breaks what passes through it, and the promised outcome of each fault at each stage."""
