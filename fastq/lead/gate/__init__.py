"""The gatekeeper: lets jobs go that wait at gates, when there is room. One in the whole schema, in a thread of its leader."""
