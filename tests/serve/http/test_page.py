"""Tests the page in a headless browser: a phone and a desktop, light and dark."""

import dataclasses
import shutil
import threading

import pytest
from serve.served import serving

HOSTILE = "<img src=x onerror=document.title='owned'>"
CELLS = """Array.from(document.querySelectorAll('#answers tr'), row =>
  Array.from(row.cells, cell => cell.firstChild.textContent))"""


def term(name, part):
    """As the page shows a term of a score; no line break comes between."""
    return f"{name}\u00a0" + ("\u2212" if part < 0 else "+") + f"{abs(part):.1f}"


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser):
    """Opens pages of a size and a colour scheme; fails if one of them had an error."""
    problems, pages = [], []

    def open_page(address, scheme="light", width=1200, height=800):
        viewport = {"width": width, "height": height}
        page = browser.new_page(color_scheme=scheme, viewport=viewport)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("requestfailed", lambda request: problems.append(request.url))
        page.goto(address)
        page.wait_for_function("document.getElementById('about').textContent !== ''")
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert problems == []


@pytest.mark.slow
def test_answers_and_errors(opened, address, served):
    page = opened(address)
    page.fill("#input", "word3 word5")
    page.fill("#k", "4")
    page.click("button")
    page.wait_for_selector("#answers tr")
    labels, scores = served.predict(["word3 word5"], k=4)
    rows = page.evaluate(CELLS)
    assert [row[1] for row in rows] == [f"name {label}" for label in labels[0]]
    assert [row[2] for row in rows] == [f"{score:.3f}" for score in scores[0]]
    (told, *_) = served.reasons(["word3 word5"], labels)
    for shown, reason in zip(page.query_selector_all("#answers small"), told, strict=True):
        words = [term(word, part) for word, part in reason.features]
        others = [term("other words", reason.other_features)] if reason.other_features else []
        terms = [*words, *others, term("the label itself", reason.bias)]
        assert shown.text_content() == " \u00b7 ".join(terms)
    assert not page.is_visible("#unknown") and not page.is_visible("#working")
    page.fill("#input", "nothing of that")
    page.click("button")
    page.wait_for_selector("#unknown:not([hidden])")
    assert page.inner_text("#unknown").startswith("Unknown: the model knows no word")
    page.evaluate("document.getElementById('k').removeAttribute('max')")
    page.fill("#k", "99")
    page.click("button")
    page.wait_for_function("document.getElementById('error').textContent !== ''")
    assert "k: found 99, expected 1 to 15" in page.inner_text("#error")
    assert not page.is_visible("#unknown") and not page.is_visible("table")


@pytest.mark.slow
def test_names_are_no_markup(opened, served):
    hostile = dataclasses.replace(served, label_names=(HOSTILE,) * len(served.label_names))
    with serving(hostile) as (address, _):
        page = opened(address)
        page.fill("#input", f"word3 {HOSTILE}")
        page.click("button")
        page.wait_for_selector("#answers tr")
        assert page.evaluate(CELLS)[0][1] == HOSTILE
        assert page.query_selector("img") is None and page.title() == "snm serve"


@pytest.mark.slow
def test_it_says_that_it_works(opened, address):
    """While the answer is on its way, the button is off and a word stands beside it."""
    page = opened(address)
    go = threading.Event()

    def hold(route):
        assert page.is_visible("#working") and page.is_disabled("#predict")
        go.set()
        route.continue_()

    page.route("**/predict", hold)
    page.fill("#input", "word3")
    page.click("button")
    page.wait_for_selector("#answers tr")
    assert go.is_set() and not page.is_visible("#working") and page.is_enabled("#predict")


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 360)])
def test_it_fits_phones_and_follows_the_colour_scheme(opened, address, scheme, width):
    page = opened(address, scheme, width)
    page.fill("#input", "word3 word5")
    page.click("button")
    page.wait_for_selector("#answers tr")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    colours = page.evaluate(
        "(({color, backgroundColor}) => [color, backgroundColor])(getComputedStyle(document.body))"
    )
    bright = [sum(map(int, c[4:-1].split(","))) / 3 for c in colours]
    assert (bright[0] > bright[1] + 120) if scheme == "dark" else (bright[1] > bright[0] + 120)


@pytest.mark.slow
def test_docs_render_without_a_network(browser, address):
    """Swagger's page shows the request, and asks no other host."""
    page = browser.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{address}/docs")
    page.wait_for_selector("text=/predict")
    page.close()
    assert all(url.startswith((address, "data:")) for url in asked)
