"""The parts that all commands share: options and settings, the database, and how things are printed."""
