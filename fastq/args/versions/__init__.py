"""Args that change shape while jobs wait: versions of a kind, the steps from one to the next, and the names that jobs ask for.

Plain values, no I/O. Declarations are made while a program is imported, and only read afterwards; args are upgraded in the
producer's thread of a worker process, in `fastq check`, and in tests of programs.
"""
