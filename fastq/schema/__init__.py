"""The tables: brought to this program's version by commands; the archive's partitions, kept by the leader and the migrations."""
