"""The statements, one to a file, and how they are put into a schema; migrations/ makes that schema. No connection here.

Data and pure functions, for any process and thread; the texts that were read once are kept.
"""
