"""Tests of faults: broken answers, killed processes, full disks and wrong clocks."""
