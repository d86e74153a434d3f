"""Tests of the files under `docker/`: linted, and their programs run on this machine."""
