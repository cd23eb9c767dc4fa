"""Settings: a host among the others: its signs of life, its leases and its domain.

Declarations, made at import and never changed; the values of a program are in its `Config`, which any thread may read.
"""

from dataclasses import dataclass

from fastq.args.options import QUEUE, QUEUE_RULE
from fastq.settings.declaring import flag, named, seconds, setting


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ClusterSettings:
    """A group of the settings of `Config`."""

    beat_interval: float = setting(
        5.0, seconds(0.1, 60), "seconds between signs of life", "a third of the time to live: two may be lost"
    )
    process_ttl: float = setting(
        15.0, seconds(1, 3_600), "seconds after the last beat until a host counts as gone", "three beats"
    )
    lease_ttl: float = setting(
        10.0, seconds(1, 3_600), "seconds that a leader's lease lasts", "bounds how long nobody leads when a host is lost"
    )
    leader_domain: str = setting(
        "default",
        named(QUEUE, QUEUE_RULE),
        "the domain that this supervisor's queues are maintained in",
        "one leader maintains every queue",
    )
    leader_domain_from: str = setting(
        "",
        named(QUEUE, QUEUE_RULE, "; empty: none"),
        "a domain that leader-domain takes over from: until it is gone both may maintain the same queues",
        "only while a domain is named or renamed",
    )
    lead: bool = setting(True, flag(), "stand for leader", "off: only work, and leave leading to others")
