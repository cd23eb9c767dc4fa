"""The steward of workflows: lets those steps go that come after others, when these have ended. One in the whole schema."""
