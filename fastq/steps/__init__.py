"""The steps of a job: done once, remembered across its attempts; and the places where it sleeps, or waits for a signal."""
