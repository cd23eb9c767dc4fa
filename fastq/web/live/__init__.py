"""Reading the database for pages: threads with connections, contents that several viewers share, and streams of their changes.

Many viewers of one page cost as one: it is read once a second or less, however many look.
"""
