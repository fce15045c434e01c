"""Texts and labels that `experiments.sets.dictionaries` finds in small files of each kind."""

import bz2
import csv

import pytest

from experiments.sets.dictionaries import KINDS, main
from snm.errors import InputError


def test_openings(tmp_path):
    path = tmp_path / "scid.eco"
    path.write_text(
        '# B00 "A comment"  1.e4 *\n\n'
        'A00a "Start position"  *\n'
        'C60b "Spanish: Cozio, 3...Nge7: 4.c3"  1.e4 e5 2.Nf3 Nc6\n  3.Bb5 Nge7 4.c3 *\n'
    )
    assert list(KINDS["openings"](path)) == [
        ("", ["A00", "Start position"]),
        ("e4 e5 Nf3 Nc6 Bb5 Nge7 c3", ["C60", "Spanish", "Cozio"]),
    ]


def test_kanji(tmp_path):
    path = tmp_path / "kanjidic"
    path.write_text(
        "# KANJIDIC\n"
        "亜 3021 U4e9c B1 C7 BX Yya4 ア つ.ぐ T1 つぐ {Asia} {rank next} \n"
        "乎 3022 U5516 B30 ア アク おし \n",
        encoding="euc_jp",
    )
    assert list(KINDS["kanji"](path)) == [
        ("Asia, rank next", ["radical 1", "ア"]),
        ("", ["radical 30", "ア", "アク"]),
    ]


def annotations(path, *entries):
    """A file of CLDR from entries of a sign, its keywords and its name."""
    path.parent.mkdir(exist_ok=True)
    lines = (
        f'<annotation cp="{sign}">{keywords}</annotation>'
        f'<annotation cp="{sign}" type="tts">{name}</annotation>'
        for sign, keywords, name in entries
    )
    path.write_text(f"<ldml><annotations>{''.join(lines)}</annotations></ldml>", encoding="utf-8")
    return path


def test_emoji(tmp_path):
    derived = tmp_path / "annotationsDerived"
    annotations(
        tmp_path / "annotations" / "en.xml",
        ("👍", "hand | thumb", "thumbs up"),
        ("👍🏽", "hand", "thumbs up: medium skin tone"),
        ("🍛", "curry", "curry rice"),
        ("✂", "tool", "scissors"),
    )
    annotations(derived / "en.xml", ("🇫🇯", "flag", "flag: Fiji"))
    german = annotations(
        tmp_path / "annotations" / "de.xml",
        ("👍", "Hand", "Daumen hoch"),
        ("👍🏽", "Hand", "Daumen hoch: mittlere Hautfarbe"),
        ("🍛", "Reis", "↑↑↑"),
        ("🦄", "Tier", "Einhorn"),
    )
    annotations(derived / "de.xml", ("🇫🇯", "Flagge", "Flagge: Fidschi"))
    assert list(KINDS["emoji"](german)) == [
        ("Daumen hoch", ["hand", "thumb"]),
        ("Flagge: Fidschi", ["flag"]),
    ]
    names = [name for name, _ in KINDS["emoji"](german.with_name("en.xml"))]
    assert names == ["thumbs up", "curry rice", "scissors", "flag: Fiji"]


def compressed(path, *lines):
    path.write_bytes(bz2.compress("\n".join(lines).encode()))


def test_unihan(tmp_path):
    compressed(
        tmp_path / "Unihan_IRGSources.txt.bz2",
        "#\tkRSUnicode",
        "U+3400\tkRSUnicode\t1.4",
        "U+4336\tkRSUnicode\t120'.3 9''.-2",
        "U+4336\tkTotalStrokes\t9",
    )
    compressed(
        tmp_path / "Unihan_Readings.txt.bz2",
        "U+3400\tkMandarin\tqiū",
        "U+3400\tkDefinition\thillock or mound",
        "",
        "U+4336\tkDefinition\tfine; thin",
        "U+9999\tkDefinition\tincense",
    )
    assert list(KINDS["unihan"](tmp_path)) == [
        ("hillock or mound", ["radical 1"]),
        ("fine; thin", ["radical 120", "radical 9"]),
        ("incense", []),
    ]


def test_unicode(tmp_path):
    (tmp_path / "Blocks.txt").write_text(
        "# Blocks\n\n0000..007F; Basic Latin\n0080..00FF; Latin-1 Supplement\n"
        "F900..FAFF; CJK Compatibility Ideographs\n"
    )
    (tmp_path / "UnicodeData.txt").write_text(
        "0000;<control>;Cc;0;BN;;;;;N;NULL;;;;\n"
        "007F;LAST;Lu;0;L;;;;;N;;;;0061;\n"
        "00AA;FEMININE ORDINAL INDICATOR;Lo;0;L;<super> 0061;;;;N;;;;;\n"
        "F900;CJK COMPATIBILITY IDEOGRAPH-F900;Lo;0;L;8C48;;;;N;;;;;\n"
    )
    latin = ["block Latin-1 Supplement", "category Lo", "direction L", "form super"]
    assert list(KINDS["unicode"](tmp_path)) == [
        ("LAST", ["block Basic Latin", "category Lu", "direction L"]),
        ("FEMININE ORDINAL INDICATOR", latin),
    ]


def written(path):
    with path.open(newline="", encoding="utf-8") as rows:
        return {row["text"]: row["labels"] for row in csv.DictReader(rows)}


def test_texts_are_joined_and_rare_labels_left_out(tmp_path):
    path = tmp_path / "kanjidic"
    rows = ["1 U1 B7 ア {one}", "2 U2 B8 ア {one}", "3 U3 B7 イ {two}", "4 U4 B7 {three}"]
    lines = [*rows, "5 U5 B7", "6 U6 ウ {four}"]
    path.write_text("title\n" + "".join(f"字 {line}\n" for line in lines), encoding="euc_jp")
    main("kanji", path, tmp_path / "out.csv")
    assert written(tmp_path / "out.csv") == dict.fromkeys(("one", "two", "three"), "radical 7")


def test_openings_keep_rare_labels_without_separators(tmp_path):
    path = tmp_path / "scid.eco"
    path.write_text('A00a "Start position"  *\nA00p "Polish (Sokolsky; Orang-Utan)"  1.b4 *\n')
    main("openings", path, tmp_path / "out.csv")
    assert written(tmp_path / "out.csv") == {"b4": "A00;Polish (Sokolsky, Orang-Utan)"}


def test_bad_input_is_refused(tmp_path):
    path, out = tmp_path / "file", tmp_path / "out.csv"
    for kind in KINDS:
        with pytest.raises(InputError, match=rf"file: found no {kind} \(.*\), expected a path"):
            main(kind, path, out)
    path.write_bytes(b"\xff\xfe\0")
    for kind in KINDS:
        with pytest.raises(InputError, match=rf"file: found no {kind} \(.*\), expected a path"):
            main(kind, path, out)
    path.write_text("neither\nof them\n")
    for kind in ("openings", "kanji"):
        with pytest.raises(InputError, match=f"{kind}: found no text with a label of"):
            main(kind, path, out)
    for name in ("Unihan_IRGSources.txt.bz2", "Unihan_Readings.txt.bz2"):
        (tmp_path / name).write_bytes(bz2.compress(b"U+1\tkDefinition\tone\n")[:-9])
    for name in ("Blocks.txt", "UnicodeData.txt"):
        (tmp_path / name).write_text("0041;A;Lu;0;L;;\n")
    for kind in ("unihan", "unicode"):
        with pytest.raises(InputError, match=rf"found no {kind} \(.*\), expected a path"):
            main(kind, tmp_path, out)
    assert not out.exists()
