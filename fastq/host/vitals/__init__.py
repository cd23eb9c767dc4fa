"""The signs of life that a supervisor shows: to a service manager, to probes and to a scraper, if somebody asks for them."""
