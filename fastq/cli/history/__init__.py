"""Commands about the traces that jobs leave: their records and prints."""
