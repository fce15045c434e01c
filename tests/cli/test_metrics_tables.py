"""How the metrics of a run are printed."""

from snm.cli.metrics_tables import print_metrics, print_summary


def test_groups_without_labels_are_not_shown(capsys):
    """Three labels fill three of ten groups."""
    group = {"labels": 1, "occurrences": 4, "recall": 50.0, "precision": 12.5}
    empty = {"labels": 0, "occurrences": 0, "recall": 0.0, "precision": 0.0}
    metrics = {"P@1": 50.0, "points": 9, "points_without_labels": 0}
    groups = [group, *[empty] * 3, group, *[empty] * 4, group]
    print_metrics({"metrics": metrics, "by_label_frequency": groups}, "title")
    shown = capsys.readouterr().out
    assert shown.count("12.5") == 3 and " 0.00 " not in shown


def test_one_is_no_plural(capsys):
    counts = {"P@1": 50.0, "points": 9, "points_without_labels": 1}
    repeats = {**counts, "points": 8}
    print_metrics({"metrics": counts, "without_repeats": repeats}, "run: test points")
    said = " ".join(capsys.readouterr().out.split())
    assert "without 1 test point equal to a training point (8)" in said
    assert "left out: 1 point without labels" in said
    print_metrics({"metrics": counts, "points_without_features": 1}, "run: test points")
    said = " ".join(capsys.readouterr().out.split())
    assert "1 test point without a known feature: predicted by the biases" in said


def test_test_points_that_all_repeat_training_points_are_told_in_a_sentence(capsys):
    counts = {"P@1": 100.0, "points": 12, "points_without_labels": 0}
    none = {"points": 0, "points_without_labels": 0}
    print_metrics({"metrics": counts, "without_repeats": none}, "run: test points")
    shown = capsys.readouterr().out
    assert "every test point equals a training point" in shown
    assert shown.count("%") == 1


def test_a_title_wider_than_its_table_stays_on_a_line(capsys):
    counts = {"P@1": 50.0, "points": 175, "points_without_labels": 0}
    print_metrics({"metrics": counts, "without_repeats": {**counts, "points": 76}}, "run")
    lines = capsys.readouterr().out.splitlines()
    assert "without 99 test points equal to a training point (76)" in map(str.strip, lines)


def test_a_training_prints_a_line_where_evaluate_prints_a_table(capsys):
    counts = {"P@1": 50.0, "R@1": 20.0, "points": 175, "points_without_labels": 0}
    fresh = {**counts, "P@1": 25.0, "points": 76}
    bins = [{"probability": 0.5, "right": 0.25, "answers": 4}]
    reliability = {"k": 1, "ECE": 0.25, "ECE_by_chance": 0.125, "bins": bins}
    groups = [{"labels": 1, "occurrences": 4, "recall": 50.0, "precision": 12.5}]
    found = {"metrics": counts, "without_repeats": fresh, "reliability": reliability,
             "by_label_frequency": groups}  # fmt: skip
    print_summary(found, "run: test points")
    brief = capsys.readouterr().out
    assert "without 99 test points equal to a training point (76): P@1 25.00\n" in brief
    assert "ECE@1 0.2500" in brief
    print_metrics(found, "run: test points")
    whole = capsys.readouterr().out
    for table in ("probabilities of the best answers", "rarest tenth"):
        assert table in whole and table not in brief


def test_titles_have_thousands_commas(capsys):
    counts = {"P@1": 50.0, "points": 5816, "points_without_labels": 0}
    print_metrics({"metrics": counts}, "run: test points")
    assert "run: test points (5,816)" in " ".join(capsys.readouterr().out.split())
