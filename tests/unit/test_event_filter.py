"""Filters: which events pass, and how one travels."""

import msgspec
import pytest

from fastq import Args, Job
from fastq.errors import OptionError
from fastq.subscribing.filters import MOST, EventFilter, Sieve, filter_of, read


class MailArgs(Args, kind="mail"):
    """The args of a job."""


def sieve(names=(), kinds=(), queues=(), jobs=()):
    return Sieve(read(filter_of(names, kinds, queues, jobs).text))


@pytest.mark.parametrize(
    ("options", "name", "fields", "passes"),
    [
        ({}, "job.started", {}, True),
        ({"names": ["job.*"]}, "job.started", {}, True),
        ({"names": ["job.*"]}, "jobs.completed", {}, False),
        ({"names": ["job.failed", "process.*"]}, "process.died", {}, True),
        ({"kinds": ["mail"]}, "job.failed", {"kind": "mail"}, True),
        ({"kinds": ["mail"]}, "job.failed", {"kind": "post"}, False),
        ({"kinds": ["mail"]}, "jobs.completed", {"kinds": {"post": 1, "mail": 2}}, True),
        ({"kinds": ["mail"]}, "kind.paused", {"kinds": ["post"]}, False),
        ({"kinds": ["mail"]}, "process.died", {}, False),
        ({"queues": ["a"]}, "job.started", {"queue": "a"}, True),
        ({"queues": ["a"]}, "job.started", {"queue": "b"}, False),
        ({"jobs": [7]}, "job.failed", {"kind": "mail", "id": 7}, True),
        ({"jobs": [7]}, "job.failed", {"kind": "mail", "id": 8}, False),
        ({"jobs": [7]}, "workflow.ended", {"id": 7}, False),
        ({"jobs": [7], "kinds": ["mail"]}, "job.failed", {"kind": "post", "id": 7}, False),
    ],
)
def test_an_event_passes_if_it_fits_each_thing_that_the_filter_names(options, name, fields, passes):
    assert sieve(**options).takes(name, fields) is passes


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({}, [1, 2, 3]),
        ({"kinds": ["mail"]}, [1, 3]),
        ({"queues": ["b"]}, [2, 3]),
        ({"jobs": [3, 9]}, [3]),
        ({"kinds": ["mail"], "queues": ["a"]}, [1]),
    ],
)
def test_jobs_pass_as_their_events_would(options, ids):
    jobs = [
        Job.of(MailArgs(), id=1, queue="a"),
        Job.of(MailArgs(), id=2, kind="post", queue="b"),
        Job.of(MailArgs(), id=3, queue="b"),
    ]

    assert [job.id for job in sieve(**options).jobs_of(jobs)] == ids
    assert [
        job.id for job in jobs if sieve(**options).takes("job.x", {"id": job.id, "kind": job.kind, "queue": job.queue})
    ] == ids


def test_a_filter_is_ascii_and_comes_back_equal():
    wanted = filter_of(["job.*"], ["größe"], ["q"], [1])

    assert wanted.text.isascii()
    assert read(wanted.text) == wanted
    assert filter_of((), (), (), ()).text == "{}"


def test_a_filter_of_a_newer_program_lets_nothing_through():
    with pytest.raises(msgspec.DecodeError):
        read('{"names": ["job.*"], "tenants": ["a"]}')


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"kinds": "mail"}, r"kinds='mail': expected a list of texts, such as \['mail'\]"),
        ({"names": [""]}, "names: expected texts of 1 to 127 bytes, got ''"),
        ({"queues": ["x" * 128]}, "queues: expected texts of 1 to 127 bytes"),
        ({"kinds": [7]}, "kinds: expected texts of 1 to 127 bytes, got 7"),
        ({"kinds": ["a\0"]}, "kinds: expected texts of 1 to 127 bytes"),
        ({"names": ["x"] * (MOST + 1)}, "names: expected 1,000 at most, got 1,001"),
        ({"jobs": range(MOST + 1)}, "jobs: expected 1,000 ids at most, got 1,001"),
    ],
)
def test_a_filter_that_is_none_is_refused(options, told):
    given = {"names": (), "kinds": (), "queues": (), "jobs": ()} | options

    with pytest.raises(OptionError, match=told):
        filter_of(**given)


def test_a_filter_with_nothing_in_it_is_all():
    assert Sieve(EventFilter()).names.texts == {"*"}
