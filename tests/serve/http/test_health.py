"""What the server tells of itself: /health, /metrics and the page."""

import datetime
import json
import re

import httpx
import pages
import tiny
from serve.served import get

import snm


def test_health_metrics_and_page(address):
    assert httpx.head(f"{address}/health").status_code == 200
    health = get(f"{address}/health").json()
    opened = datetime.datetime.fromisoformat(health.pop("opened"))
    age = datetime.datetime.now(datetime.UTC) - opened
    assert datetime.timedelta() <= age < datetime.timedelta(hours=1)
    assert health == {
        "status": "ok",
        "snm_version": snm.__version__,
        "num_labels": tiny.LABELS,
        "num_features": tiny.FEATURES,
        "inputs": ["texts", "features"],
        "label_names": True,
        "probabilities": False,
        "search": "exact",
        "max_k": 15,
    }
    page = get(address)
    assert page.status_code == 200 and "<textarea" in page.text
    assert get(f"{address}/favicon.svg").headers["Content-Type"].startswith("image/svg+xml")
    told = get(f"{address}/metrics").text
    assert 'snm_requests_total{path="/health",status="200"}' in told
    assert "snm_request_seconds_bucket" in told and "snm_waiting_requests" in told


def test_every_field_of_health_is_explained(address):
    """In OpenAPI, and on the page of the documentation."""
    fields = get(f"{address}/openapi.json").json()["components"]["schemas"]["Health"]["properties"]
    page = (pages.ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    told = page.split("### What /health tells")[1].split("\n## ")[0]
    (example,) = re.findall("^{.*}$", told, re.MULTILINE)
    assert list(json.loads(example)) == list(fields) == list(get(f"{address}/health").json())
    explained = re.findall("`([^`]+)`", " ".join(re.findall(r"^\| (`.*?) \|", told, re.MULTILINE)))
    assert explained == list(fields)
    assert all(field.get("description") for field in fields.values())
