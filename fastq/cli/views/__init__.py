"""Commands that show the whole cluster and go on showing it: the dashboard."""
