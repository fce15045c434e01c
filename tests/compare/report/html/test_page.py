"""The report: its text and tables agree with the results, and the page loads no other file."""

import copy
import functools
import html.parser
import re
import shutil

import pytest
from compare.comparison import BASE, arm, full, many, results, unprobed

from snm.compare.report.html.page import page
from snm.compare.report.markdown import markdown
from snm.compare.report.tables import all_sheets
from snm.compare.report.verdict import verdict


class Read(html.parser.HTMLParser):
    """Collects tables by caption (rows of cell texts), ids, references and headings."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.ids, self.links, self.levels, self.tags = {}, [], [], [], []
        self._rows, self._cell = [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if "id" in attrs:
            self.ids.append(attrs["id"])
        self.links += [value for key, value in attrs.items()
                       if key.split(":")[-1] in ("href", "src", "srcset", "data")]  # fmt: skip
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        if tag == "tr":
            self._rows.append([])
        if tag in ("th", "td", "caption"):
            self._cell = ""

    def handle_data(self, data):
        if self._cell is not None:
            self._cell += data

    def handle_endtag(self, tag):
        if tag in ("th", "td"):
            self._rows[-1].append(" ".join(self._cell.split()))
        elif tag == "caption":
            self._rows = self.tables.setdefault(self._cell, [])
        if tag in ("th", "td", "caption"):
            self._cell = None


def words(cell):
    return " ".join(cell.split())


def wanted(found):
    return {
        sheet.title: [list(map(words, row)) for row in (sheet.columns, *sheet.rows)]
        for sheet in all_sheets(found)
    }


@functools.cache
def full_page():
    return page(full())


CASES = {
    "full": full,
    "one seed": lambda: results(arm(BASE, [2.0]), arm("top-1", [3.0], [2.0]), seeds=1),
    "nothing finished": lambda: results(arm(BASE, [None]), arm("top-1", [None]), seeds=1),
    "no probes": lambda: results(unprobed(arm(BASE, [0.0, 0.0])),
                                 unprobed(arm("top-1", [1.0, 2.0]))),
    "many": many,
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [name if name == "full" else pytest.param(name, marks=pytest.mark.slow) for name in CASES],
)
def test_the_page_is_valid_and_self_contained(name):
    found = CASES[name]()
    text = full_page() if name == "full" else page(found)
    read = Read(text)
    assert read.tables == wanted(found)
    assert len(set(read.ids)) == len(read.ids)
    # Every reference stays within the page.
    assert {link[0] for link in read.links} == {"#"}
    assert {link[1:] for link in read.links} <= set(read.ids)
    assert not re.search(r"https?:|//[a-z]|@import|<script|<link", text)
    assert {at[0] for at in re.findall(r"url\((.)([^)]*)", text)} <= {"#"}
    assert set(re.findall(r"url\(#([^)]*)", text)) <= set(read.ids)
    # Heading levels increase by one at most.
    assert read.levels[0] == 1
    assert all(below <= above + 1 for above, below in zip(read.levels, read.levels[1:], strict=0))
    for tag, attrs in read.tags:
        if tag == "svg":
            assert attrs.get("role") == "img" or attrs.get("aria-hidden") == "true"
        for label in attrs.get("aria-labelledby", "").split():
            assert label in read.ids
        if attrs.get("class") == "scroll":
            assert attrs["tabindex"] == "0"


@pytest.mark.slow
def test_the_page_is_the_same_each_time_and_leaves_matplotlib_alone():
    import matplotlib

    before = dict(matplotlib.rcParams)
    assert page(full()) == page(full())
    assert dict(matplotlib.rcParams) == before


def test_the_table_of_bounds():
    found = {sheet.title: sheet for sheet in all_sheets(full())}["Generalization bounds"]
    rows = {row[0]: row[1:] for row in found.rows}
    assert "lost" not in rows  # no seed of it finished
    assert rows["top-16"] == ("0.25", "0.94", "1", "0.75", "30", "2", "0.125", "2.88", "53.5",
                              "20", "4")  # fmt: skip
    assert "Theorem 6 as proved is not below 1 in any run, so vacuous." in found.note
    least = "it is not below `loss at most` in any run, so vacuous."
    assert found.note.endswith(least)
    # Of either theorem alone: 1.86 of 4 says something, whatever Theorem 6 says.
    good = arm(BASE, [1.0, 2.0])
    good["seeds"] = copy.deepcopy(good["seeds"])
    for seed in good["seeds"]:
        seed["bounds"]["theorem_5"]["proved"] = 1.86
    note = {s.title: s for s in all_sheets(results(good))}["Generalization bounds"].note
    assert "Theorem 6 as proved is not below 1 in any run, so vacuous." in note
    assert note.endswith("`loss at most` in every run, so not vacuous.")
    good["seeds"][0]["bounds"]["theorem_5"]["proved"] = 4.0
    note = {s.title: s for s in all_sheets(results(good))}["Generalization bounds"].note
    assert note.endswith("in 1 of 2 runs, and vacuous in the others.")
    del good["seeds"][0]["bounds"]["theorem_5"]["proved"]
    del good["seeds"][1]["bounds"]["theorem_5"]["proved"]
    note = {s.title: s for s in all_sheets(results(good))}["Generalization bounds"].note
    assert "Theorem 5" not in note


def test_theorem_5_is_marked_where_it_does_not_describe_the_arm():
    base, other = (arm(name, [1.0, 2.0]) for name in (BASE, "top-1-exclude-all"))
    other["seeds"] = copy.deepcopy(other["seeds"])
    for seed in other["seeds"]:  # below the range, and yet no bound of this arm
        seed["bounds"]["theorem_5"] = {"note": "theta is another", "proved": 1.86, "range": 4.0}
    found = {s.title: s for s in all_sheets(results(base, other))}["Generalization bounds"]
    assert [row[-2:] for row in found.rows] == [("20", "4"), ("1.86*", "4*")]
    assert found.note.endswith(
        "among the runs without * it is not below `loss at most` in any run, so vacuous. With *, "
        "Theorem 5 does not describe the loss, as theta is another."
    )
    # Without an arm that it describes, the columns are explained all the same.
    found = {s.title: s for s in all_sheets(results(other))}["Generalization bounds"]
    assert found.note.endswith(
        "Theorem 5, as proved too, bounds how far the expected loss is above that on the training "
        "points. With *, Theorem 5 does not describe the loss, as theta is another."
    )


def test_legends_tell_of_shared_seeds_where_their_own_table_lacks_one():
    says, base = "over the seeds that both have", arm(BASE, [2.0, 4.0])
    whole, lost = arm("top-1", [1.0, 3.0], [2.0, 4.0]), arm("top-1", [1.0, None], [2.0, 4.0])
    found = results(base, whole, equal_seconds=[base, lost])
    notes = {sheet.title: sheet.note for sheet in all_sheets(found)}
    assert says not in notes["Equal steps"] and says in notes["Equal seconds"]
    one = all_sheets(results(arm(BASE, [2.0]), arm("top-1", [None]), seeds=1))[0].note
    assert says not in one  # there is no seed but the one


def test_a_tuned_rate_at_the_edge_of_the_grid_is_marked():
    one, other = arm(BASE, [2.0, 4.0]), arm("top-1", [1.0, 2.0], [2.0, 4.0])
    tried = [{"learning_rate": rate, "negative_weight": weight}
             for weight in (1.0, 4.0) for rate in (50 / 3, 50.0, 150.0)]  # fmt: skip
    trials = [{"settings": settings} for settings in tried]
    tuning = {BASE: {"trials": trials, "best": tried[2]},
              "top-1": {"trials": trials, "best": tried[4]}}  # fmt: skip
    found = results(one, other, tuned=[one, other], tuning=tuning)
    sheet = {sheet.title: sheet for sheet in all_sheets(found)}["Each arm at its best"]
    assert [row[1:3] for row in sheet.rows] == [
        ("rate 150*, weight 1", "rate 16.6667, 50, 150; weight 1, 4"),
        ("rate 50, weight 4", "rate 16.6667, 50, 150; weight 1, 4"),
    ]
    says = "With *, the rate is at the edge of those tried"
    assert says in sheet.note and sheet.note.endswith("of two values, each is at an edge.")
    tuning[BASE]["best"] = tried[4]
    sheet = {sheet.title: sheet for sheet in all_sheets(found)}["Each arm at its best"]
    assert says not in sheet.note


def test_runs_without_bounds_have_no_table_of_them():
    without = arm(BASE, [1.0, 2.0])
    for seed in without["seeds"]:
        del seed["bounds"]  # as of runs that were not probed
    assert "Generalization bounds" not in {sheet.title for sheet in all_sheets(results(without))}


def test_names_are_escaped():
    text = full_page()
    assert "<i>" not in text
    assert "&lt;i&gt;&amp;amp;" in text
    assert "<h1>a&lt;b&gt;&amp;: SNM" in text
    assert "snm compare a&amp;b --out &#39;x&lt;y&#39;" in text


def test_the_name_of_a_folder_that_is_no_text():
    """Bytes that are not UTF-8 are lone surrogates, which no file of text takes."""
    found = results(unprobed(arm(BASE, [2.0, 4.0])))
    found["command"], found["data"]["name"] = "snm compare caf\udce9", "caf\udce9"
    for text in (page(found), markdown(found)):
        assert "caf\\udce9" in text
        text.encode()


def test_plots_describe_their_figures():
    text = full_page()
    said = re.findall(r"<desc [^>]*>([^<]*)</desc>", text)
    # Means of the seeds: 4 and 8; 2 and 4; one seed of 1.
    curve = next(s for s in said if "ends at" in s)
    assert curve == ("top-16 ends at 6.00, &lt;i&gt;&amp;amp; ends at 4.00, negative-sampling "
                     "ends at 3.00, in-batch ends at 3.00, top-1 ends at 1.00.")  # fmt: skip
    ratios = next(s for s in said if s.startswith("Ratios"))
    assert "top-1 0.50, top-16 2.00, in-batch 1.00" in ratios
    assert (
        "The arm&#39;s mean divided by the mean of its baseline, over the seeds that both have; "
        "dashed: equal."
    ) in text
    assert "Whiskers" not in text and "95% interval" not in text  # of two seeds
    base = [2.0, 4.0, 6.0]
    arms = unprobed(arm(BASE, base)), unprobed(arm("top-1", [6.0, 4.0, 2.0], base))
    three = page(results(*arms, seeds=3))
    assert "top-1 1.00 ± 2.48" in three and "Whiskers: 95% interval;" in three
    assert "as they do not sample uniformly: in-batch." in text


def test_gradients_of_other_scales_are_not_to_be_compared():
    says = "compare the heights of arms of one loss and scale only."
    bowl = arm(BASE, [2.0, 4.0], loss="bowl", score_scale=1.0)
    assert says in page(results(bowl, arm("softmax", [3.0, 4.0], loss="softmax", score_scale=6.9)))
    assert says not in full_page()


def test_seconds_of_a_quick_run_are_told():
    quick = {**unprobed(arm(BASE, [2.0, 4.0])), "seconds": 0.0312}
    found = results(quick, equal_seconds=[quick])
    tables = {sheet.title: sheet.rows[0] for sheet in all_sheets(found)}
    assert tables["Time and memory"][1] == tables["Equal seconds"][2] == "0.031"
    assert verdict(found)[-2].endswith("Arms took 0.031 to 0.031 seconds.")
    assert "negative-sampling 0.031 seconds." in page(found)


def test_times_that_are_not_equal_are_named():
    base = {**arm(BASE, [2.0, 4.0]), "seconds": 1.0}
    slow = {**arm("top-1", [2.0, 4.0], [2.0, 4.0]), "seconds": 1.3}
    near = {**arm("top-16", [2.0, 4.0], [2.0, 4.0]), "seconds": 0.81}
    notes = {s.title: s.note for s in all_sheets(results(base, equal_seconds=[base, slow, near]))}
    assert "The seconds of top-1 are not equal to the baseline's" in notes["Equal seconds"]
    same = {s.title: s.note for s in all_sheets(results(base, equal_seconds=[base, near]))}
    assert "not equal" not in same["Equal seconds"]


# -- in a browser ----------------------------------------------------------------------------


COLLISIONS = """Array.from(document.querySelectorAll('svg.plot'), svg => {
  const texts = Array.from(svg.querySelectorAll('text'),
    e => [e.textContent, e.getBoundingClientRect()]);
  return texts.flatMap(([mine, a], at) => texts.slice(at + 1).filter(([_, b]) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2
  ).map(([other, _]) => [mine, other]));
}).flat()"""


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip(f"no browser on PATH: {', '.join(names)}")
    with playwright.sync_playwright() as play:
        found = play.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["full", "many"])
def test_the_page_in_a_browser(browser, tmp_path, name, width):
    found = CASES[name]()
    file = tmp_path / "report.html"
    file.write_text(page(found), encoding="utf-8")
    shown, said, asked = browser.new_page(viewport={"width": width, "height": 900}), [], []
    shown.on("console", lambda message: said.append(message.text))
    shown.on("pageerror", lambda error: said.append(str(error)))
    shown.on("request", lambda request: asked.append(request.url))
    shown.goto(file.as_uri())
    assert said == []
    assert asked == [file.as_uri()]
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    tables = shown.evaluate(
        "Array.from(document.querySelectorAll('table'), t => [t.caption.textContent,"
        " Array.from(t.rows, r => Array.from(r.cells, c => c.textContent))])"
    )
    assert {title: [list(map(words, row)) for row in rows] for title, rows in tables} == (
        wanted(found)
    )
    # No panel cuts off its text, and the text is large enough to read without zooming.
    sizes = shown.evaluate(
        "Array.from(document.querySelectorAll('svg.plot'), s => s.getBoundingClientRect().width /"
        " s.viewBox.baseVal.width)"
    )
    assert min(sizes) > 0.85
    # On a desktop no table is cut. No two texts of a drawing are on top of each other.
    cut = "Array.from(document.querySelectorAll('.scroll'), d => d.scrollWidth - d.clientWidth)"
    assert width < 1000 or max(shown.evaluate(cut)) == 0
    assert shown.evaluate(COLLISIONS) == []
    # The name of an arm breaks at its hyphens at most: a word is as wide as a line of it.
    broken = """Array.from(document.querySelectorAll('tbody th'), cell => {
      const lines = document.createRange();
      lines.selectNodeContents(cell);
      const tops = new Set(Array.from(lines.getClientRects(), box => Math.round(box.top)));
      return tops.size - cell.textContent.split(/[-\\s]+/).length;
    })"""
    assert max(shown.evaluate(broken)) <= 0
    # Bounds come behind all drawings.
    last = "Array.from(document.querySelectorAll('main h2'), h => h.textContent).at(-1)"
    assert shown.evaluate(last) == "What the theory says"
    shown.keyboard.press("Tab")
    assert shown.evaluate("document.activeElement.className") == "skip"
    shown.close()
