"""The end of a job in a transaction of the user's: written with the user's own effects, fenced, and committed with them."""
