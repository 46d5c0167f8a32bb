"""Channels and neighbor lists in files: what is read, and one clear error for each thing that is not."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidChannel
from discreet.mechanisms import channel_io
from discreet.mechanisms.channel import Channel, identity
from discreet.mechanisms.channel_io import parse_csv, parse_json, read_channel, read_pairs, to_csv, to_json
from discreet.mechanisms.optimal import geometric_channel

COIN = "answer,yes,no\nyes,3/4,1/4\nno,0.25,0.75\n"
WORDS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1)


class TestCsv:
    def test_the_plain_case(self):
        channel = parse_csv(COIN)
        assert (channel.inputs, channel.outputs) == (("yes", "no"), ("yes", "no"))
        assert channel.matrix.tolist() == [[Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]]

    @pytest.mark.parametrize(
        "text",
        [
            "\ufeff" + COIN,
            COIN.replace("\n", "\r\n"),
            COIN.replace("\n", "\r"),
            "\n\n" + COIN.replace("\n", "\n\n") + "\n , , \n",
            COIN.replace(",", ";"),
            COIN.replace(",", "\t"),
            COIN.replace(",", " , "),
            COIN.replace("yes", '"yes"').replace("3/4", '"3/4"'),
            COIN.rstrip("\n"),
            COIN.replace("answer", ""),
            COIN.replace("3/4", " 3 / 4 "),
        ],
    )
    def test_spellings_of_the_same_channel(self, text):
        assert parse_csv(text) == parse_csv(COIN)

    def test_quotes_and_unicode(self):
        channel = parse_csv('ε,"a,b","say ""hi""",日本\n"größe, cm",1/2,1/4,1/4\n')
        assert channel.inputs == ("größe, cm",)
        assert channel.outputs == ("a,b", 'say "hi"', "日本")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "the file is empty"),
            ("\n \n", "the file is empty"),
            ("\ufeff", "the file is empty"),
            ("x,a,b\n", "some are missing"),
            ("x\na\n", "some are missing"),
            ("x,a,b\nr,1/2\n", "line 2 has 2 cells, expected 3"),
            ("x,a,b\n\nr,1/2,1/4,1/4\n", "line 3 has 4 cells, expected 3"),
            ("x,a,a\nr,1/2,1/2\n", "output 'a' appears twice"),
            ("x,a,b\nr,1,0\nr,0,1\n", "input 'r' appears twice"),
            ("x,a,\nr,1,0\n", "column 3 of the header is empty"),
            ("x,a,b\nr,1/2,\n", "row 'r', column 'b': got an empty cell"),
            ("x,a,b\nr,50%,50%\n", "row 'r', column 'a': got '50%'"),
            ("x,a,b\nr,nan,1\n", "row 'r', column 'a': got 'nan'"),
            ("x,a,b\nr,inf,1\n", "got 'inf'"),
            ("x,a,b\nr,-1,2\n", "row 'r' has -1 for 'a'"),
            ("x,a,b\nr,0.5,0.4\n", r"row 'r' sums to 0\.9, expected exactly 1; .*normalize"),
            ('x,a,b\nr,"1/2,1/2\n', "is not CSV"),
            ('x,a,b\nr,"1/2"x,1/2\n', "is not CSV"),
            ("x,a,b\nr,1e99999,0\n", "row 'r', column 'a'"),
            ("0.2,0.3,0.5\n0.5,0.25,0.25\n", "the first column seems to hold probabilities"),
        ],
    )
    def test_one_clear_error_each(self, text, message):
        with pytest.raises(InvalidChannel, match=message):
            parse_csv(text)

    def test_rounded_decimals_become_floats(self):
        thirds = "x,a,b,c\nr,0.3333333333,0.3333333333,0.3333333333\n"
        assert not parse_csv(thirds).exact
        assert parse_csv(thirds, normalize=True).probability("r", "a") == Fraction(1, 3)
        with pytest.raises(InvalidChannel, match="sums to"):
            parse_csv(thirds.replace("3333333333", "333"))

    def test_many_cells_are_decided_alike(self):
        rows = np.full((110, 100), "0.01", dtype=object)
        assert parse_csv(_csv(rows)).exact
        rows[3, 5] = "0.0100000000001"
        assert not parse_csv(_csv(rows)).exact
        rows[3, 5] = "1/100"
        assert parse_csv(_csv(rows)).exact
        for bad, message in (
            ("0.02", "row 'r3' sums to 1.01"),
            ("nan", "row 'r3', column 'c5'"),
            ("", "an empty cell"),
        ):
            rows[3, 5] = bad
            with pytest.raises(InvalidChannel, match=message):
                parse_csv(_csv(rows))

    @settings(max_examples=50)
    @given(
        st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3).filter(any), min_size=1, max_size=4),
        st.lists(
            st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1), min_size=3, max_size=3, unique=True
        ),
    )
    def test_what_is_written_is_read_back(self, weights, outputs):
        channel = Channel(weights, inputs=[f"r{i}" for i in range(len(weights))], outputs=outputs, normalize=True)
        assert parse_csv(to_csv(channel)) == channel
        assert parse_json(to_json(channel)) == channel

    def test_long_exact_entries_are_read_back(self):
        channel = geometric_channel(20, 1)
        assert max(len(cell) for cell in to_csv(channel).split(",")) > 400
        assert parse_csv(to_csv(channel)).matrix.tolist() == channel.matrix.tolist()
        with pytest.raises(InvalidChannel, match="over 4300 digits"):
            to_csv(geometric_channel(400, 1))

    def test_floats_are_read_back(self):
        channel = Channel(np.array([[0.1, 0.2, 0.7], [1 / 3, 1 / 3, 1 / 3]]), inputs=["a", "b"])
        again = parse_csv(to_csv(channel))
        assert again.matrix.astype(float).tolist() == channel.matrix.tolist()
        assert parse_json(to_json(channel)).matrix.astype(float).tolist() == channel.matrix.tolist()


class TestJson:
    @pytest.mark.parametrize(
        "text",
        [
            '{"inputs": ["yes", "no"], "outputs": ["yes", "no"], "matrix": [["3/4", "1/4"], [0.25, 0.75]]}',
            '\ufeff {"matrix": [[0.75, 0.25], [0.25, 0.75]], "outputs": ["yes", "no"], "inputs": ["yes", "no"]}',
        ],
    )
    def test_the_plain_case(self, text):
        assert parse_json(text) == parse_csv(COIN)

    def test_a_bare_matrix(self):
        channel = parse_json("[[0.1, 0.9], [1, 0]]")
        assert channel.inputs == (0, 1)
        assert channel.probability(0, 0) == Fraction(1, 10)

    def test_labels_of_every_kind(self):
        channel = identity([("a", 1), 2, 0.5, "x"])
        assert parse_json(to_json(channel)) == channel

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "not JSON"),
            ("[[0.5, 0.5]", "line 1, column .*not JSON"),
            ("[]", "it is empty"),
            ("[[]]", "it is empty"),
            ("[1, 2]", "row 0 is a int"),
            ("3", "expected the fields"),
            ('"x"', "expected the fields"),
            ('{"inputs": ["a"]}', "expected the fields"),
            ('{"matrix": [[1]], "name": "x"}', "'name'"),
            ('{"matrix": [[1]], "matrix": [[1]]}', "'matrix' appears twice"),
            ('{"matrix": 7}', "got a int"),
            ('{"matrix": [[1]], "inputs": "a"}', "expected a list of labels"),
            ('{"matrix": [[1]], "inputs": [{}]}', "cannot be a label"),
            ('{"matrix": [[1]], "inputs": ["a", "b"]}', "got 2 labels, expected 1"),
            ("[[NaN, 1]]", "got NaN"),
            ("[[Infinity, 1]]", "got Infinity"),
            ("[[true, false]]", "True and False are not numbers"),
            ("[[null, 1]]", "a NoneType is not a number"),
            ("[[1, 0], [1]]", "row 1 has 1 entries"),
            ("[[1e999999999, 0]]", "row 0, column 0"),
            ("[[" + "1" * 5000 + ", 0]]", "too long"),
            ("[" * 100_000, "not"),
        ],
    )
    def test_one_clear_error_each(self, text, message):
        with pytest.raises(InvalidChannel, match=message):
            parse_json(text)


class TestFiles:
    def test_the_text_tells_which_format_it_is(self, tmp_path):
        (tmp_path / "a.txt").write_text(COIN, encoding="utf-8-sig")
        (tmp_path / "b.txt").write_text("\n" + to_json(parse_csv(COIN)), encoding="utf-8-sig")
        assert read_channel(tmp_path / "a.txt") == read_channel(str(tmp_path / "b.txt")) == parse_csv(COIN)

    def test_errors_name_the_file(self, tmp_path):
        (tmp_path / "bad.csv").write_text("x,a\nr,1/2\n")
        with pytest.raises(InvalidChannel, match=r"bad\.csv: row 'r' sums to 0\.5"):
            read_channel(tmp_path / "bad.csv")
        assert read_channel(tmp_path / "bad.csv", normalize=True).probability("r", "a") == 1

    def test_files_that_cannot_be_read(self, tmp_path, monkeypatch):
        with pytest.raises(InvalidChannel, match="No such file"):
            read_channel(tmp_path / "none.csv")
        with pytest.raises(InvalidChannel, match="Is a directory"):
            read_channel(tmp_path)
        (tmp_path / "latin.csv").write_bytes("x,größe\na,1\n".encode("latin-1"))
        with pytest.raises(InvalidChannel, match="not UTF-8 text"):
            read_channel(tmp_path / "latin.csv")
        (tmp_path / "wide.csv").write_text(COIN, encoding="utf-16")
        with pytest.raises(InvalidChannel, match="not UTF-8 text"):
            read_channel(tmp_path / "wide.csv")
        (tmp_path / "empty.csv").write_text("")
        with pytest.raises(InvalidChannel, match="is empty"):
            read_channel(tmp_path / "empty.csv")
        (tmp_path / "coin.csv").write_text(COIN)
        monkeypatch.setattr(channel_io, "_MOST_BYTES", 10)
        with pytest.raises(InvalidChannel, match="build the `Channel` in Python"):
            read_channel(tmp_path / "coin.csv")

    def test_too_many_cells(self, monkeypatch):
        monkeypatch.setattr(channel_io, "_MOST_CELLS", 3)
        with pytest.raises(InvalidChannel, match="over 3 entries"):
            parse_csv(COIN)

    def test_binary_files(self, tmp_path):
        (tmp_path / "x.csv").write_bytes(b"\x00" * 100)
        with pytest.raises(InvalidChannel):
            read_channel(tmp_path / "x.csv")

    def test_pairs(self, tmp_path):
        file = tmp_path / "pairs.csv"
        file.write_text('# neighbors; in pairs\nyes,no\n\n"a,b", c \n', encoding="utf-8-sig")
        assert read_pairs(file) == [("yes", "no"), ("a,b", "c")]
        for text, message in (("", "no pairs"), ("a,b,c\n", "line 1 has 3 cells"), ("x,y\na\n", "line 2 has 1 cells")):
            file.write_text(text)
            with pytest.raises(InvalidChannel, match=rf"pairs\.csv: .*{message}"):
                read_pairs(file)

    def test_pairs_from_a_file_fit_channels_with_numbers(self, tmp_path):
        (tmp_path / "pairs.csv").write_text("0,1\n")
        assert parse_json("[[0.5, 0.5], [0.25, 0.75], [0, 1]]").ratio(read_pairs(tmp_path / "pairs.csv")) == 2
        assert parse_json("[[0.5, 0.5], [0.25, 0.75], [0, 1]]").epsilon("all") == math.inf

    def test_json_is_json(self):
        assert json.loads(to_json(parse_csv(COIN)))["matrix"] == [["0.75", "0.25"], ["0.25", "0.75"]]


def _csv(rows):
    header = ",".join(["x", *(f"c{j}" for j in range(rows.shape[1]))])
    return "\n".join([header, *(f"r{i}," + ",".join(row) for i, row in enumerate(rows))])
