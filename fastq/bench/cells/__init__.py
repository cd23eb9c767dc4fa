"""The cells of `fastq bench`: questions about real work (a trickle of jobs, many queues, slow jobs), asked of a system.

A *system* is a queue with its programs: fastq itself (own.py), or a peer (`bench/peers` in the checkout). The main thread of the
program that measures starts these programs, tells them when to go and reads the meters; the measured code runs in them alone.

    cell      a question as data, and the stage where it is asked    programs  a measured program, seen from outside
    table     all cells, asked and shown                               meters    CPU, WAL, transactions, memory, the neighbours
    rates     jobs per second, with a backlog                        speak     what a measured program in Python says and hears
    spreads   many queues, several hosts                             own       fastq as a system
    streams   jobs that come while others are worked; enqueueing     subject   its program; jobs: its jobs
    plot      pictures of the figures
"""
