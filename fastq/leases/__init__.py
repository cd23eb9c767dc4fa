"""A name for one holder: leases, the electors that stand for them, and the handle that a singleton's function is given."""
