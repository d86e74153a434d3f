"""Survivors that were judged before, with the reason why no test has to notice them.

A block of `verdicts.txt` has the module with the function or class, the changed lines, and the reason.
"""

from collections.abc import Mapping
from pathlib import Path


def verdicts() -> Mapping[str, str]:
    """Return the reasons by change."""
    blocks = (block.strip().rpartition("\n") for block in Path(__file__).with_suffix(".txt").read_text().split("\n\n"))
    return {change: reason for change, _, reason in blocks if change}
