"""The viewers of the dashboard and their permissions, checks of origins and hosts, headers, redaction, the token of `--local`.

Plain values and functions, called in the event loop that serves; `Local` alone keeps something.
"""
