"""The report of a run in a real browser: no error on its console, a picture in every chart, tables that
sort, and nothing wider than a phone. The browser is headless Chromium over WebDriver; it loads one file."""

import json
import shutil
import subprocess
import urllib.request

import pytest

from net import PATIENCE, wait_until
from overlane import overlane

pytestmark = [pytest.mark.needs_overlane, pytest.mark.needs("chromium", "chromedriver")]

#: A run as short as a run can be: two networks, streams and transactions.
STUDY = """
name: tiny
title: A tiny <study> & its page
question: Does the page stand?
matrix: MATRIX
quick: MATRIX
views:
  - view: packet-rate
  - view: guest-cpu
"""

MATRIX = """
  samples: 6
  seconds: 0.5
  warm_up_seconds: 0.5
  networks: [direct, bridge]
  groups:
    - { tests: [tcp_stream], bytes: [65536] }
    - { tests: [tcp_rr], bytes: [64] }
"""


class Browser:
    """The few commands of WebDriver (W3C) that a page needs to be looked at."""

    def __init__(self, port):
        self.base = f"http://127.0.0.1:{port}/session"
        options = {"args": ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                            "--disable-background-networking", "--disable-component-update",
                            "--disable-sync"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        created = self._call("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self.base += "/" + created["sessionId"]

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method,
                                         headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60 * PATIENCE) as answer:
            return json.loads(answer.read())["value"]

    def open(self, path):
        self._call("POST", "/url", {"url": path.as_uri()})

    def script(self, text):
        return self._call("POST", "/execute/sync", {"script": text, "args": []})

    def console(self):
        return self._call("POST", "/se/log", {"type": "browser"})

    def phone(self):
        """A viewport of 390 CSS pixels; a window cannot be made as narrow as that everywhere."""
        metrics = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
        self._call("POST", "/goog/cdp/execute",
                   {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics})

    def close(self):
        self._call("DELETE", "")


@pytest.fixture(scope="module")
def report(only_one_lab, tmp_path_factory):
    """A finished run, measured once for all tests of this file."""
    directory = tmp_path_factory.mktemp("report")
    study, result = directory / "tiny.yaml", directory / "result"
    study.write_text(STUDY.replace("MATRIX", MATRIX))
    overlane("lab", "run", study, "--no-tty", "--out", result, timeout=180)
    return result / "report.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    log = tmp_path_factory.mktemp("browser") / "log"
    with open(log, "w", encoding="utf-8") as output:
        driver = subprocess.Popen([shutil.which("chromedriver"), "--port=0"], stdout=output, stderr=output)
    try:
        def port():
            said = log.read_text()
            return said.split("on port ")[-1].split(".")[0] if "successfully on port" in said else None
        wait_until(port, timeout=30, what="chromedriver listens")
        opened = Browser(port())
        yield opened
        opened.close()
    finally:
        driver.terminate()
        driver.wait()


@pytest.fixture
def page(report, browser):
    browser.open(report)
    return browser


def test_nothing_is_wrong_on_the_console_and_nothing_is_loaded(page):
    assert [line for line in page.console() if line["level"] in ("SEVERE", "WARNING")] == []
    assert page.script("return performance.getEntriesByType('resource').map(r => r.name)"
                       ".filter(name => !name.startsWith('data:'))") == []


def test_the_answers_lead_to_rows_that_are_there(page):
    links = page.script("return [...document.querySelectorAll('a[href^=\"#\"]')]"
                        ".map(a => a.getAttribute('href').slice(1))")
    assert len(links) > 10
    assert page.script("return [...document.querySelectorAll('a[href^=\"#\"]')]"
                       ".filter(a => !document.getElementById(a.getAttribute('href').slice(1))).length") == 0
    # A link into folded rows opens them.
    assert page.script("""
        const link = document.querySelector('#questions a[href^="#cmp-"]');
        const row = document.getElementById(link.getAttribute('href').slice(1));
        const folded = row.closest('details'), before = folded.open;
        location.hash = link.getAttribute('href');
        return new Promise(done => setTimeout(() => done([before, folded.open]), 200));
    """) == [False, True]


def test_every_chart_has_its_data(page):
    charts = page.script("""
        return [...document.querySelectorAll('figure')].map(figure => ({
            id: figure.id,
            marks: figure.querySelectorAll('[role=img] .mark').length,
            name: figure.querySelector('figcaption strong').textContent,
            words: figure.querySelector('[role=img]').getAttribute('aria-label')
                || figure.querySelector('svg > desc').textContent,
            rows: figure.querySelectorAll('details tbody tr').length,
        }))""")
    assert {"chart-goodput_gbps-0", "chart-transactions_per_second-1"} <= {chart["id"] for chart in charts}
    for chart in charts:
        assert chart["name"] and chart["words"], chart
        assert chart["marks"] > 0 and chart["rows"] > 0, chart


def test_the_answer_is_the_first_thing_to_read_and_the_rest_is_folded(page):
    said = page.script("""
        const answer = document.querySelector('.answer');
        return {sentence: answer.textContent, bottom: answer.getBoundingClientRect().bottom, height: innerHeight,
                trust: document.querySelector('.trust').textContent,
                open: document.querySelectorAll('details[open]').length};
    """)
    assert said["sentence"].endswith(".") and said["bottom"] < said["height"]
    assert said["trust"].startswith("Trust: ") and said["open"] == 0


def test_tables_sort_by_their_heads(page):
    orders = page.script("""
        const table = document.querySelector('#cells table');
        const heads = [...table.tHead.rows[0].cells];
        const at = heads.findIndex(head => head.textContent.startsWith('Goodput'));
        const values = () => [...table.tBodies[0].rows].map(row => row.cells[at].dataset.sort)
            .filter(value => value !== undefined).map(Number);
        const button = heads[at].querySelector('button');
        button.click();
        const down = values(), said = heads[at].getAttribute('aria-sort');
        button.click();
        return {down, said, up: values(), then: heads[at].getAttribute('aria-sort')};
    """)
    assert len(orders["down"]) == 2
    assert orders["down"] == sorted(orders["down"], reverse=True) and orders["said"] == "descending"
    assert orders["up"] == sorted(orders["up"]) and orders["then"] == "ascending"


def test_a_phone_scrolls_tables_and_not_the_page(page):
    page.phone()
    width = page.script("""
        document.querySelectorAll('details').forEach(folded => folded.open = true);
        return [document.documentElement.scrollWidth, innerWidth]""")
    assert width == [390, 390]
