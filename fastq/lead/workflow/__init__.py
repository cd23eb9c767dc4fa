"""The steward of workflows: lets those steps go that come after others, when these have ended.

There is one in the whole schema, in the gatekeeper's thread of its leader.
"""
