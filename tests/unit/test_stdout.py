"""What jobs print comes out in whole lines, whoever else prints."""

import io
import sys
import threading

import pytest

from fastq.work.shared import stdout
from fastq.work.shared.stdout import LONGEST, Lines

THREADS, PRINTS = 8, 500


def redirected(file, monkeypatch):
    """Print into a file with ours in its place; called by the test itself, before which pytest puts in its own."""
    monkeypatch.setattr(sys, "stdout", file)
    stdout.install()


@pytest.fixture
def raw():
    return io.BytesIO()


def in_another_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_threads_that_print_at_once_share_no_line(raw, monkeypatch):
    redirected(io.TextIOWrapper(raw, encoding="utf-8"), monkeypatch)

    def work(number):
        for count in range(PRINTS):
            print(f"thread {number}", "print", count)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)

    lines = raw.getvalue().decode().splitlines()
    assert sorted(lines) == sorted(f"thread {number} print {count}" for number in range(THREADS) for count in range(PRINTS))


def test_a_line_that_was_begun_is_kept_until_it_ends_and_others_pass_it(raw, monkeypatch):
    redirected(io.TextIOWrapper(raw, encoding="utf-8"), monkeypatch)
    print("one", end=" ")
    in_another_thread(lambda: print("another"))
    print("line\nand", end="")
    assert raw.getvalue() == b"another\none line\n"

    sys.stdout.flush()
    assert raw.getvalue() == b"another\none line\nand"


def test_a_row_of_dots_appears_as_it_is_flushed(raw, monkeypatch):
    redirected(io.TextIOWrapper(raw, encoding="utf-8"), monkeypatch)
    for _ in range(3):
        print(".", end="", flush=True)

    assert raw.getvalue() == b"..."


def test_a_line_without_an_end_is_not_kept_for_ever(raw, monkeypatch):
    redirected(io.TextIOWrapper(raw, encoding="utf-8"), monkeypatch)
    for _ in range(3 * LONGEST):
        print("x", end="")
    assert len(sys.stdout._begun[threading.get_ident()]) <= LONGEST + 1

    sys.stdout.flush()
    assert raw.getvalue() == b"x" * 3 * LONGEST


def test_what_nobody_ends_comes_out_at_the_end_of_the_process(raw, monkeypatch):
    redirected(io.TextIOWrapper(raw, encoding="utf-8"), monkeypatch)
    in_another_thread(lambda: print("begun", end=""))
    sys.stdout.flush()
    assert raw.getvalue() == b""

    stdout.finish()
    assert raw.getvalue() == b"begun"


def test_a_file_of_another_sort_stays(monkeypatch):
    file = io.StringIO()
    redirected(file, monkeypatch)
    stdout.finish()

    assert sys.stdout is file


def test_it_writes_as_the_file_did_whose_place_it_takes(raw, monkeypatch):
    redirected(io.TextIOWrapper(raw, encoding="utf-8"), monkeypatch)
    assert isinstance(sys.stdout, Lines)
    assert (sys.stdout.encoding, sys.stdout.write("é\n")) == ("utf-8", 2)
    assert raw.getvalue() == "é\n".encode()


def test_what_cannot_be_written_is_lost_and_told_and_raises_nothing(monkeypatch, events):
    with open("/dev/full", "w") as full, monkeypatch.context() as patched:  # noqa: PTH123
        redirected(full, patched)
        for number in range(3_000):
            print("job", number)
        sys.stdout.flush()
        stdout.finish()
        sys.stdout.buffer.raw.close()

    (event,) = events
    assert (event.name, str(event.fields["error"])) == ("stdout.lost", "[Errno 28] No space left on device")
