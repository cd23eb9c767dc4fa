"""The settings, a group for each thing that they are about: declarations alone, which `Config` joins."""
