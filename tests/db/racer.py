"""A process that races for leases: reads a name a line, tries for it once, answers with the term or with '-'.

python racer.py URL [unpinned]
"""

import sys

from fastq.leases import lease
from fastq.leases.lease import identity
from fastq.postgres import db

TTL = 10.0


def main():
    url, *how = sys.argv[1:]
    pinned = not how
    connection = db.connect(url, role="racer", pinned=pinned, prepare=pinned)
    print("ready", flush=True)
    for line in sys.stdin:
        term = lease.acquire(connection, line.strip(), identity(), TTL).term
        print(term or "-", flush=True)


main()
