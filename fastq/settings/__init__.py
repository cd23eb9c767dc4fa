"""The settings, a group for each thing that they are about: declarations alone, made at import, which `Config` joins."""
