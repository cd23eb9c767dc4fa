"""How pages look: templates, words for times and numbers, the measures of charts and graphs.

Pure functions and a template environment that is made once; called in the event loop that serves, and in threads of pages.
"""
