"""The files under `docker/`: linted, and every program in them run on this machine with the same settings."""
