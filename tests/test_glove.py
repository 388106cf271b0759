"""Word vectors from GloVe's text files, and every way in which such a file can be broken."""

import gzip

import pytest
import torch

from helpers.data.examples import DataError
from helpers.models.glove import read_glove

GOOD = "the 0.5 -1 2e-1\n. . . 1 2 3\nking 7 8 9\nthe 4 4 4\ncafé 0 0 1\n"


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("ending", ["\n", "\r\n", " \n"])
def test_wanted_words_in_their_order(tmp_path, ending):
    path = write(tmp_path / "glove.txt", GOOD.replace("\n", ending))
    vectors, found = read_glove(path, ["king", "queen", "the", "café"], 3)
    assert vectors.dtype == torch.float32 and found.dtype == torch.bool
    assert vectors.tolist() == [[7, 8, 9], [0, 0, 0], pytest.approx([0.5, -1, 0.2]), [0, 0, 1]]
    assert found.tolist() == [True, False, True, True]


def test_a_word_may_hold_spaces_and_the_first_of_two_counts(tmp_path):
    path = write(tmp_path / "glove.txt", GOOD)
    vectors, found = read_glove(path, [". . .", "the"], 3)
    assert found.all() and vectors[0].tolist() == [1, 2, 3] and vectors[1, 1] == -1
    with pytest.raises(DataError, match="none of the 1 words"):
        read_glove(path, ["."], 3)


def test_a_word_may_be_asked_for_twice_or_none_at_all(tmp_path):
    path = write(tmp_path / "glove.txt", GOOD)
    vectors, found = read_glove(path, ["king", "none", "king"], 3)
    assert vectors[0].tolist() == vectors[2].tolist() == [7, 8, 9] and found.tolist() == [True, False, True]
    vectors, found = read_glove(path, [], 3)
    assert vectors.shape == (0, 3) and found.shape == (0,)


def test_gzipped_files_are_read_too(tmp_path):
    path = write(tmp_path / "glove.txt.gz", gzip.compress(GOOD.encode()))
    assert read_glove(path, ["king"], 3)[0].tolist() == [[7, 8, 9]]


@pytest.mark.parametrize(
    ("content", "width", "words"),
    [
        ("a 1 2\nb 1 2\n", 3, "line 1: expected a word and 3 numbers .*found 2 numbers; .*set the width to 2"),
        ("a 1 2 3 4 5\n", 3, "line 1: expected a word and 3 numbers .*found 5 numbers; .*set the width to 5"),
        (". . 1 2 3 4 5\n", 3, "line 1: .*found 5 numbers; give a file of width 3, or set the width to 5"),
        ("400000 3\na 1 2 3\n", 3, "line 1 is word2vec's header .400000 3.*remove the line"),
        ("a 1 2 3\nb 1 2\n", 3, "line 2: .*found 2 numbers, in 'b 1 2'; the line is broken: fetch the file again"),
        ("a 1 2 3\nb 1 2 3 4\n", 3, "line 2: .*found 4 numbers, .*the line is broken"),
        ("a 1 2 3\n\nb 1 2 3\n", 3, "line 2: .*found 0 numbers, in ''"),
        ("a\t1\t2\t3\n", 3, "line 1: .*single spaces .*found 0 numbers, in "),
        ("b 1 2 3\na 1 x 3\n", 3, "line 2: expected a finite number in place 2, found 'x'; fetch the file again"),
        ("b 1 2 3\na nan 2 3\n", 3, "line 2: expected a finite number in place 1, found 'nan'"),
        ("b 1 2 3\na 1 2 -inf\n", 3, "line 2: expected a finite number in place 3, found '-inf'"),
        ("b 1 2 3\na 1 2 1e99\n", 3, "line 2: expected a finite number in place 3, found '1e99'"),
        (b"b 1 2 3\n\xff 1 2 3\n", 3, "line 2 is not UTF-8"),
        ("", 3, "the file is empty; expected a word and 3 numbers a line"),
        ("der 1 2 3\ndie 1 2 3\n", 3, "none of the 1 words, such as 'a', is on its 2 lines; .*same language"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_file_that_cannot_be_used_is_one_clear_line(tmp_path, content, width, words):
    path = write(tmp_path / "glove.txt", content)
    with pytest.raises(DataError, match=rf"glove\.txt: {words}") as error:
        read_glove(path, ["a"], width)
    assert "\n" not in str(error.value)


def test_only_wanted_words_are_parsed(tmp_path):
    assert read_glove(write(tmp_path / "glove.txt", "b 1 x 3\na 1 2 3\n"), ["a"], 3)[1].all()


def test_missing_and_zipped_files(tmp_path):
    with pytest.raises(DataError, match=r"none\.txt: no such file; -p glove names GloVe's text file"):
        read_glove(tmp_path / "none.txt", ["a"], 3)
    with pytest.raises(DataError, match=r"glove\.zip: unzip it, and give the \.txt file"):
        read_glove(write(tmp_path / "glove.zip", "PK"), ["a"], 3)
