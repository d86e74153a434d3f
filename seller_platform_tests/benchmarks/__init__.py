"""Commands that measure speed and behaviour under faults; none of them is a test."""
