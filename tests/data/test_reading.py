import gzip
import io
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from capstext.data.reading import Tally, kind_of, read_rows, sniff
from capstext.errors import CapstextError, UsageError


def written(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def texts(path: Path, **options: object) -> list[str]:
    return [row.text for row in read_rows(path, **options)]


@pytest.mark.parametrize(
    "content",
    [
        b"good\nbad\n",
        b"good\nbad",
        b"good\r\nbad\r\n",
        b"\xef\xbb\xbfgood\nbad\n",
        b"\xef\xbb\xbfgood\r\nbad",
    ],
    ids=["plain", "no-final-newline", "crlf", "bom", "all-three"],
)
@pytest.mark.parametrize("name", ["a.txt", "a.log", "a", "a.txt.gz"])
def test_line_ends_and_bom_make_no_difference(tmp_path, content, name):
    path = written(tmp_path, name, gzip.compress(content) if name.endswith(".gz") else content)
    rows = list(read_rows(path))
    assert [(row.id, row.text, row.line) for row in rows] == [(1, "good", 1), (2, "bad", 2)]


@pytest.mark.parametrize(
    "content",
    ["text,label\ngood,1\nbad,0\n", "text,label\r\ngood,1\r\nbad,0", "\ufefftext,label\ngood,1\n\nbad,0\n\n"],
    ids=["plain", "crlf-no-final-newline", "bom-and-blank-lines"],
)
def test_line_ends_bom_and_blank_lines_make_no_difference_in_a_table(tmp_path, content):
    rows = list(read_rows(written(tmp_path, "a.csv", content)))
    assert [(row.id, row.text, row.fields["label"]) for row in rows] == [(1, "good", "1"), (2, "bad", "0")]


def test_a_blank_line_of_a_text_file_is_a_row(tmp_path):
    tally = Tally()
    assert texts(written(tmp_path, "a.txt", "one\n\n  \ntwo\n"), tally=tally) == ["one", "", "  ", "two"]
    assert (tally.rows, tally.empty) == (4, 2)


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "a.jsonl"])
@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"], ids=["empty", "bom-only"])
def test_an_empty_file_has_no_rows(tmp_path, name, content):
    assert texts(written(tmp_path, name, content)) == []


def test_only_newlines_end_a_line(tmp_path):
    odd = "a\u2028b\x0bc\x85d"
    assert texts(written(tmp_path, "a.txt", f"{odd}\ne")) == [odd, "e"]


def test_invalid_utf8_is_named_by_file_line_byte_and_column(tmp_path):
    path = written(tmp_path, "reviews.txt", "schön\n".encode() + "Pößneck caf".encode() + b"\xe9 au lait\n")
    with pytest.raises(CapstextError) as error:
        texts(path)
    expected = "reviews.txt:2: not UTF-8 (byte 0xe9 at column 12); convert the file or pass --errors replace"
    assert str(error.value).endswith(expected)
    tally = Tally()
    assert texts(path, errors="replace", tally=tally)[1] == "Pößneck caf\ufffd au lait"
    assert tally.replaced == 1


def test_a_replacement_character_that_stood_in_the_file_is_not_counted(tmp_path):
    tally = Tally()
    texts(written(tmp_path, "a.txt", "\ufffd ".encode() + b"\xff\n"), errors="replace", tally=tally)
    assert tally.replaced == 1


def test_invalid_utf8_in_a_table_is_named_by_its_line(tmp_path):
    path = written(tmp_path, "a.csv", b'text,label\n"one\ntwo",1\nx\xff,0\n')
    with pytest.raises(CapstextError, match=r"a\.csv:4: not UTF-8 \(byte 0xff at column 2\)"):
        texts(path)


def test_lone_surrogates_and_nul_are_replaced_and_counted(tmp_path):
    tally = Tally()
    path = written(tmp_path, "a.txt", b"a\x00b\nc\xed\xa0\x80d\n")
    assert texts(path, tally=tally) == ["a\ufffdb", "c\ufffdd"]
    assert tally.replaced == 2
    path = written(
        tmp_path, "a.jsonl", '{"text": "a\\ud83d b\\u0000 \\ud83d\\ude00", "labels": ["\\udc00"]}\n'
    )
    tally = Tally()
    row = next(read_rows(path, tally=tally))
    assert row.text == "a\ufffd b\ufffd \U0001f600"
    assert row.fields["labels"] == ["\ufffd"]
    assert tally.replaced == 3
    row.text.encode()


@pytest.mark.parametrize("letter", ["x", "é", "語", "😀"])
@pytest.mark.parametrize("before", ["", "a", "é"])
@pytest.mark.parametrize("length", [9, 10, 11, 12, 13, 100])
def test_a_long_line_is_cut_at_the_bound_and_counted(tmp_path, letter, before, length):
    line = before + letter * (length - len(before))
    tally = Tally()
    path = written(tmp_path, "a.txt", f"{line}\nnext\n")
    assert texts(path, max_characters=10, tally=tally) == [line[:10], "next"]
    assert tally.cut == (length > 10)


def test_a_long_field_is_cut_at_the_bound_and_counted(tmp_path):
    for name, content in (
        ("a.csv", "text,label\n" + "x" * 300_000 + ",1\nshort,0\n"),
        ("a.jsonl", json.dumps({"text": "x" * 300_000}) + '\n{"text": "short"}\n'),
    ):
        tally = Tally()
        assert texts(written(tmp_path, name, content), max_characters=200_000, tally=tally) == [
            "x" * 200_000,
            "short",
        ]
        assert tally.cut == 1


MEMORY = """
import resource, sys
from capstext.data.reading import Tally, read_rows
tally = Tally()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
lengths = [len(row.text) for row in read_rows("-", max_characters=1000, tally=tally)]
print(lengths, tally.cut, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_line_of_two_hundred_megabytes_takes_little_memory():
    with subprocess.Popen(
        [sys.executable, "-c", MEMORY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=False
    ) as process:
        for _ in range(200):
            process.stdin.write(b"x" * 1_000_000)
        out, _ = process.communicate(b"\nshort")
    *answer, kilobytes = out.decode().split()
    assert " ".join(answer) == "[1000, 5] 1"
    assert int(kilobytes) < 20_000


def test_stdin_is_one_text_a_line(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"text,label\nx\xff,1"), "ascii"))
    rows = read_rows("-")
    assert next(rows).text == "text,label"
    with pytest.raises(CapstextError, match=r"^stdin:2: not UTF-8 \(byte 0xff at column 2\)"):
        next(rows)
    assert not sys.stdin.buffer.closed


def test_a_newline_in_a_quoted_field_or_a_json_string_is_one_row(tmp_path):
    rows = list(read_rows(written(tmp_path, "a.csv", 'text,label\n"one\r\ntwo, ""three""",1\nfour,0\n')))
    assert [(row.id, row.text, row.line) for row in rows] == [(1, 'one\ntwo, "three"', 2), (2, "four", 4)]
    assert texts(written(tmp_path, "a.jsonl", '{"text": "one\\ntwo"}\n')) == ["one\ntwo"]
    assert texts(written(tmp_path, "a.tsv", 'text\tlabel\n"one\ttwo"\t1\n')) == ["one\ttwo"]


@pytest.mark.parametrize(
    ("name", "content", "fault", "left"),
    [
        ("a.csv", "text,label\ng,1\nb,0,x\nd,1\n", ":3: 3 fields where the header has 2", ["g", "d"]),
        ("a.csv", "text,label\ng,1\nb\nd,1\n", ":3: 1 fields where the header has 2", ["g", "d"]),
        (
            "a.csv",
            'text,label\ng,1\n"b,0\nd,1\ne,0\n',
            ":3: a quote is opened and never closed",
            ["g", "d", "e"],
        ),
        ("a.csv", 'text,label\ng,1\n"b,0\nd,1\n"e",0\n', ":3: bad quoting", ["g", "d", "e"]),
        ("a.csv", 'text,label\ng,1\n"b"x,0\nd,1\n', ":3: bad quoting", ["g", "d"]),
        ("a.tsv", "text\tlabel\ng\t1\nb\nd\t1\n", ":3: 1 fields where the header has 2", ["g", "d"]),
        ("a.jsonl", '{"text": "g"}\n{"text": \n{"text": "d"}\n', ":2: bad JSON", ["g", "d"]),
        ("a.jsonl", '{"text": "g"}\n["b"]\n{"text": "d"}\n', ":2: not a JSON object but list", ["g", "d"]),
        ("a.jsonl", '{"text": "g"}\n{"txt": "b"}\n{"text": "d"}\n', ":2: no column 'text'", ["g", "d"]),
        (
            "a.jsonl",
            '{"text": "g"}\n{"text": {}}\n{"text": "d"}\n',
            ":2: column 'text' holds no text",
            ["g", "d"],
        ),
        ("a.jsonl", '{"text": "g"}\n' + "[" * 100_000 + '\n{"text": "d"}\n', ":2: bad JSON", ["g", "d"]),
        ("a.jsonl", '{"text": "g"}\n{"n": ' + "9" * 5000 + '}\n{"text": "d"}\n', ":2: bad JSON", ["g", "d"]),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_a_bad_row_is_named_by_file_and_line_or_skipped_and_counted(tmp_path, name, content, fault, left):
    path = written(tmp_path, name, content)
    with pytest.raises(CapstextError) as error:
        texts(path)
    assert f"{name}{fault}" in str(error.value)
    assert str(error.value).endswith("--skip-bad")
    assert "\n" not in str(error.value)
    tally = Tally()
    rows = list(read_rows(path, skip_bad=True, tally=tally))
    assert [row.text for row in rows] == left
    assert [row.id for row in rows] == [1, *range(3, 2 + len(left))], "ids keep count of the skipped row"
    assert tally.skipped == 1
    assert fault in tally.faults[0]


def test_an_overlong_record_is_a_bad_row(tmp_path, monkeypatch):
    monkeypatch.setattr("capstext.data.records.RECORD_LIMIT", 1000)
    for name, content in (
        ("a.csv", "text,label\ng,1\n" + "x" * 2000 + ",0\nd,1\n"),
        ("a.jsonl", '{"text": "g"}\n{"text": "' + "x" * 2000 + '"}\n{"text": "d"}\n'),
    ):
        path = written(tmp_path, name, content)
        with pytest.raises(CapstextError, match=rf"{name}:\d: a line of more than 1,000 bytes"):
            texts(path)
        tally = Tally()
        assert texts(path, skip_bad=True, tally=tally) == ["g", "d"]
        assert tally.skipped == 1


def test_an_open_quote_does_not_swallow_a_large_file(tmp_path, monkeypatch):
    monkeypatch.setattr("capstext.data.records.RECORD_LINES", 50)
    path = written(tmp_path, "a.csv", 'text,label\n"open,1\n' + "fine,0\n" * 1000)
    with pytest.raises(CapstextError, match=r"a\.csv:2: a quote is opened and never closed"):
        texts(path)
    assert texts(path, skip_bad=True) == ["fine"] * 1000


def test_a_missing_column_is_a_usage_error_that_names_the_columns_found(tmp_path):
    for name, content in (("a.csv", "Body,stars\nx,1\n"), ("a.jsonl", '{"Body": "x", "stars": 1}\n')):
        with pytest.raises(UsageError, match="no column 'text'; columns found: Body, stars"):
            texts(written(tmp_path, name, content), text_column="text")
    with pytest.raises(UsageError, match="a text file has no column"):
        texts(written(tmp_path, "a.txt", "x\n"), text_column="text")


def test_a_column_that_stands_twice_is_refused(tmp_path):
    with pytest.raises(CapstextError, match=r"a\.csv:1: column 'text' stands twice"):
        texts(written(tmp_path, "a.csv", "text,text\nx,y\n"))


def test_ids_are_kept_and_otherwise_count_rows(tmp_path):
    path = written(
        tmp_path, "a.jsonl", '{"id": "k7", "text": "a"}\n\n{"id": 9, "text": "b"}\n{"text": "c"}\n'
    )
    assert [(row.id, row.line) for row in read_rows(path)] == [("k7", 1), (9, 3), (3, 4)]
    path = written(tmp_path, "a.csv", "ID,text\nk7,a\n,b\n")
    assert [row.id for row in read_rows(path)] == ["k7", 2]


def test_null_and_numbers_are_texts_of_json(tmp_path):
    path = written(tmp_path, "a.jsonl", '{"text": "a"}\n{"text": null}\n{"text": 5}\n')
    assert texts(path) == ["a", "", "5"]


def test_the_guess_is_told(tmp_path):
    tally = Tally()
    path = written(tmp_path, "a.csv", "stars,said\n5,a fine film\n")
    assert texts(path, tally=tally) == ["a fine film"]
    assert tally.text_column == "said"
    assert sniff(path).label == "stars"
    assert sniff(path, text_column="stars").text == "stars"


def test_a_folder_gives_one_row_a_document_in_order(tmp_path):
    written(tmp_path, "b.txt", "\ufeffone\r\ntwo\r\n")
    written(tmp_path, "a/z.txt", "deep")
    written(tmp_path, "a/y.txt.gz", gzip.compress(b"packed"))
    written(tmp_path, "c", "no suffix\n\n")
    written(tmp_path, "picture.png", b"\x89PNG")
    written(tmp_path, ".hidden/x.txt", "hidden")
    tally = Tally()
    rows = list(read_rows(tmp_path, tally=tally))
    assert [(row.id, row.text) for row in rows] == [
        ("a/y.txt.gz", "packed"),
        ("a/z.txt", "deep"),
        ("b.txt", "one\ntwo"),
        ("c", "no suffix\n"),
    ]
    assert tally.ignored == 1


def test_a_document_that_is_not_utf8_is_named_by_line_and_column(tmp_path):
    written(tmp_path, "x.txt", b"fine\nal\xe9\n")
    with pytest.raises(CapstextError, match=r"x\.txt:2: not UTF-8 \(byte 0xe9 at column 3\)"):
        texts(tmp_path)


def test_a_long_document_is_cut(tmp_path):
    written(tmp_path, "x.txt", "語" * 5000)
    tally = Tally()
    assert texts(tmp_path, max_characters=100, tally=tally) == ["語" * 100]
    assert tally.cut == 1


def test_a_folder_without_text_and_a_missing_file_are_errors(tmp_path):
    with pytest.raises(CapstextError, match="no text files in this folder"):
        texts(tmp_path)
    with pytest.raises(CapstextError, match=r"^no such file: .*nothing\.csv$") as error:
        texts(tmp_path / "nothing.csv")
    assert error.value.exit_code == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_one_line(tmp_path):
    path = written(tmp_path, "a.txt", "x")
    path.chmod(0)
    with pytest.raises(CapstextError, match=r"^cannot read .*a\.txt: Permission denied$"):
        texts(path)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-10], lambda data: b"plain", lambda data: data[:20] + b"xxxx"]
)
def test_a_damaged_gzip_file_is_named(tmp_path, damage):
    packed = gzip.compress(os.urandom(50_000).hex().encode())
    for name in ("a.txt.gz", "folder/a.txt.gz"):
        path = written(tmp_path, name, damage(packed))
        with pytest.raises(CapstextError, match=r"a\.txt\.gz: damaged gzip file"):
            texts(path if name == "a.txt.gz" else path.parent)


def test_kinds_go_by_suffix(tmp_path):
    names = {
        "a.csv": "csv",
        "a.TSV": "tsv",
        "a.jsonl.gz": "jsonl",
        "a.json": "jsonl",
        "a.txt.gz": "text",
        "-": "text",
    }
    assert {name: kind_of(name) for name in names} == names
    assert kind_of(tmp_path) == "folder"


def test_reading_needs_only_the_standard_library():
    heavy = "{'numpy', 'torch', 'datasets', 'pyarrow'}"
    code = f"import sys, capstext.data.reading; print({heavy} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


def test_many_rows_stream(tmp_path):
    path = written(tmp_path, "a.csv", "text,label\n" + "some words of a review,1\n" * 200_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(1 for _ in read_rows(path)) == 200_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
