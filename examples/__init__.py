"""Programs to read and to run, one idea each; start with quickstart."""
