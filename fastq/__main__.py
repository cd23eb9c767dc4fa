"""`python -m fastq`: the command line, in the main thread of a program. It keeps nothing."""

import sys

from fastq.cli import main

if __name__ == "__main__":
    sys.exit(main())
