"""The tables: bring them to the version that this program knows, and keep the archive's partitions."""
