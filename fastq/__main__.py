"""`python -m fastq`: the command line."""

import sys

from fastq.cli import main

if __name__ == "__main__":
    sys.exit(main())
