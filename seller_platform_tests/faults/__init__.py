"""Tests of faults: broken answers, killed processes and full disks."""
