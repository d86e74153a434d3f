"""Tests of `seller-platform docs`."""
