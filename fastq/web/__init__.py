"""The dashboard: an ASGI application of server-made pages for an operator, closed until an auth function opens it.

    app.mount("/fastq", dashboard(client, auth=who))      in FastAPI or Starlette; the same object for uvicorn alone
    fastq web --local                                     for the person at this machine

Public are `dashboard`, `Viewer`, `READER`, `OPERATOR` and `PERMISSIONS`; all else may change. Pages are rooms of modules that
declare data: `pages/` and `cluster/`. It runs in the event loop of the program that serves it, and in a few threads of its own.
"""

# The packages are an extra: a checker has nothing to say where they are not installed.
# pyright: reportMissingImports=false
try:
    import jinja2
    import starlette
except ImportError as missing:
    raise ImportError(
        f"fastq.web: expected the package {missing.name}, which is not installed; pip install 'fastq-jobs[web]'"
    ) from missing

from fastq.web.security.permissions import OPERATOR, PERMISSIONS, READER, Viewer
from fastq.web.site import Dashboard, dashboard

__all__ = ["OPERATOR", "PERMISSIONS", "READER", "Dashboard", "Viewer", "dashboard"]

del jinja2, starlette
