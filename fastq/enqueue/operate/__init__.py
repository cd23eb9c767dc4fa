"""Your program as an operator: methods of the clients that look at pauses, gates and keys, and change them."""
