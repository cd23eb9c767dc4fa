"""The executors: threads and an event loop run the user's code; the main thread sees to it that no job outlasts its time."""
