"""The chores on what people and programs look at: statistics are rolled up, subscriptions that nobody renews are removed."""
