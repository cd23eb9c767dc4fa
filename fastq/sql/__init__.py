"""The statements, one to a file, and how they are put into a schema; migrations/ makes that schema. No connection here."""
