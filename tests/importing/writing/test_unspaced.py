"""Texts of scripts without spaces between words get a hint at import."""

import pytest
from command_line import call
from data.documents import write_jsonl

HINT = "and a clause counts as a word: --analyzer char --ngrams 1 2 finds parts of it"
CHINESE = ["打印机坏了请帮忙", "无法连接到公司的网络", "密码过期了怎么办"]
THAI = ["เครื่องพิมพ์เสียไม่สามารถพิมพ์ได้", "เชื่อมต่อเครือข่ายไม่ได้"]
JAPANESE = ["プリンターが壊れました", "ネットワークに接続できません"]


def said_of(tmp_path, capsys, texts, *options):
    rows = [{"text": text, "labels": ["a"]} for text in texts]
    source = write_jsonl(tmp_path / "in.jsonl", rows)
    call("data", "import", source, "--out", tmp_path / "out", *options)
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("texts", [CHINESE, THAI, JAPANESE])
def test_a_hint(tmp_path, capsys, texts):
    assert f"100% of the letters have no spaces between words, {HINT}" in said_of(
        tmp_path, capsys, texts
    )


def test_the_share_of_letters(tmp_path, capsys):
    """5 letters in a run, of 20; digits, signs and short runs, which may be words, are no such."""
    texts = ["打印机坏了 printer! 12", "broken 手机"]
    assert f"25% of the letters have no spaces between words, {HINT}" in said_of(
        tmp_path, capsys, texts
    )


@pytest.mark.parametrize("texts, options", [
    (["a broken printer", "Ärger mit dem Drucker", "프린터가 고장났습니다", "принтер сломан"], []),
    (["打印机 坏 了 请 帮忙", "无法 连接 到 公司 的 网络"], []),  # separated by a program
    (["打印机坏了 " + "printer " * 4], []),
    (CHINESE, ["--analyzer", "char"]),
    (CHINESE, ["--token-pattern", r"\w"]),
])  # fmt: skip
def test_no_hint(tmp_path, capsys, texts, options):
    assert HINT not in said_of(tmp_path, capsys, texts, *options)
