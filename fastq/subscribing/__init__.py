"""Subscriptions: how a program hears the events of all processes of a schema, through the database."""
