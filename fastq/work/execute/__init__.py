"""The executors: run the user's code in threads and on an event loop, and see to it that no job outlasts its time."""
