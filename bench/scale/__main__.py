"""`python -m bench.scale [--living N] [--finished N] [--days N] [--folder DIR] [--seconds S] [QUESTION ...]`.

    fill      make the jobs, for so many seconds; begun again it goes on
    pages     each page of the dashboard: the time of the server, the bytes of a first view
    words     each word of the search, alone and in hard pairs: the time of a page, and how far it came
    commands  what clients, commands and scrapers ask
    bulk-fill make the jobs for this: all finished ones are discarded ones
    bulk      an operation that retries the finished jobs, while the living ones are worked, or `--rate` others a second
    tabs      no tab, one and ten open tabs of the dashboard, while jobs are worked: the CPU that they cost
    drop      delete the folder

The folder keeps the jobs, so questions can be asked one by one; `bulk` and `tabs` take a folder of their own. 10 million living
and 50 million finished jobs take 20 GB, and half an hour to fill. A folder that is not named is deleted at the end.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from bench.scale import bulk, commands, filling, pages, tabs, words
from bench.scale.ground import Ground, opened, session

QUESTIONS = ("fill", "pages", "words", "commands")


def main() -> None:
    """Ask the questions."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help="one of those above")
    parser.add_argument("--living", type=int, default=100_000)
    parser.add_argument("--finished", type=int, default=500_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seconds", type=float, default=3_600.0, help="for how long to fill")
    parser.add_argument("--rounds", type=int, default=5, help="requests of each page")
    parser.add_argument("--only", default="", help="pages with this in their address")
    parser.add_argument("--rate", type=int, default=0, help="bulk, tabs: plain jobs a second; 0: as fast as they are worked")
    parser.add_argument("--follow", default="", metavar="EXPRESSION", help="follow the searches whose words fit to their end")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="fastq-scale-", dir="/tmp"))
    try:
        for question in options.questions or QUESTIONS:
            answer(question, opened(folder, options.living, options.finished, options.days), options)
    finally:
        if options.folder is None or "drop" in options.questions:
            shutil.rmtree((folder / "data").resolve() if (folder / "data").exists() else folder, ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)


def answer(question: str, ground: Ground, options: argparse.Namespace) -> None:
    """Answer one question."""
    if question == "drop":
        return
    began = time.monotonic()
    print(f"{question}: load before {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    with ground.serving(filling="fill" in question) as config:
        if question == "fill":
            whole = filling.fill(ground, config, options.seconds)
            connection = session(config)
            print(f"  {'whole' if whole else 'in part'}: {filling.told(ground, connection)}")
            connection.close()
        elif question == "pages":
            pages.measure(ground, config, options.rounds, options.only)
        elif question == "words":
            words.measure(ground, config, options.follow)
        elif question == "bulk-fill":
            bulk.prepare(ground, config, options.rate)
        elif question == "bulk":
            if not bulk.measure(ground, config, options.rate):
                sys.exit("bulk: not each row is right")
        elif question == "tabs":
            tabs.measure(ground, config, options.rate or 200, min(options.seconds, 20.0))
        else:
            commands.measure(ground, config)
    print(f"{question}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
