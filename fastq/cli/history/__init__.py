"""Commands about what is stored with jobs: their records and prints, their encrypted args."""
