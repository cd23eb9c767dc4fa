"""The command for your shell itself: the words that it completes."""
