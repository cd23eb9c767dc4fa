"""Args that nobody sees in the database: values that hide themselves, the ring of keys, and the codec of kinds that encrypt.

Plain values, no I/O but that of a source of keys that the application gives. `cryptography`, an extra, is imported where a key is
made. Args are sealed in the thread that enqueues, and opened in the producer's thread of a worker process.
"""
