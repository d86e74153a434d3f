"""Tests of the README and the pages of documentation: their links, commands, examples and pictures."""
