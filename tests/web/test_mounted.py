"""The code of docs/dashboard.md does what the page says: who gets in, below which path, with which rights."""

import os
import subprocess
import sys

import pytest

from tests.test_docs import DOCS, files

pytestmark = pytest.mark.further

PROGRAM = """
import base64, sys
from starlette.testclient import TestClient
import recipes
from access import who
from api import app
from fastq.web import dashboard
from redacted import redact
from shop.asgi import application

ada, grace = (TestClient(app, headers={"x-forwarded-user": name}, follow_redirects=False) for name in ("ada", "grace"))
assert TestClient(app).get("/ops/fastq/").status_code == 403
page = ada.get("/ops/fastq/")
assert page.status_code == 200 and 'href="/ops/fastq/jobs"' in page.text, page.text
assert ada.get("/ops/fastq/everything/pause").status_code == 200
assert grace.get("/ops/fastq/everything/pause").status_code == 403
assert grace.get("/ops/fastq/queues").status_code == 403
assert ada.get("/ops/fastq", follow_redirects=True).status_code == 200
style = page.text.partition('rel="stylesheet" href="')[2].partition('"')[0]
assert ada.get(style).status_code == 200

django = TestClient(application, follow_redirects=False)
assert django.get("/ops/fastq/").headers["location"] == "/admin/login/?next=/ops/fastq/"

def of(password):
    head = "Basic " + base64.b64encode(f"ada:{password}".encode()).decode()
    return TestClient(dashboard(auth=recipes.by_password), headers={"authorization": head}).get("/static/fastq.css").status_code

assert [of("right"), of("wrong"), of("")] == [200, 401, 401]
assert TestClient(dashboard(auth=recipes.by_password)).get("/").status_code == 401
assert redact("mail", "args", {"email": "a", "n": 1}) == {"email": "•••", "n": 1}
assert redact("login", "error", "x") == "•••" and redact("mail", "error", "x") == "x"
"""


def test_the_pages_applications_let_in_those_whom_they_know(database, tmp_path):
    for name, text in files(DOCS / "dashboard.md").items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    environment = {**os.environ, "FASTQ_DATABASE_URL": database, "ADAS_PASSWORD": "right"}

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr


def test_a_member_of_the_staff_gets_in_by_djangos_session(database, tmp_path):
    for name, text in files(DOCS / "dashboard.md").items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text.replace(":memory:", str(tmp_path / "django.db")))
    program = """
from starlette.testclient import TestClient
from shop.asgi import application
from django.core.management import call_command
call_command("migrate", verbosity=0)
from django.contrib.auth.models import User
from django.test import Client
codes = []
for name, staff, boss in (("ada", True, True), ("rita", True, False), ("eve", False, False)):
    user = User.objects.create_user(name, password="x", is_staff=staff, is_superuser=boss)
    browser = Client()
    browser.force_login(user)
    site = TestClient(application, cookies={"sessionid": browser.cookies["sessionid"].value}, follow_redirects=False)
    codes.append([site.get(path).status_code for path in ("/ops/fastq/", "/ops/fastq/everything/pause")])
print(codes)
"""
    environment = {**os.environ, "FASTQ_DATABASE_URL": database}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stdout.strip() == "[[200, 200], [200, 403], [403, 403]]", done.stderr
