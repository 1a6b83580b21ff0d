"""Saved models: a loaded model gives the same results, and an invalid file is always a ModelFileError."""

import copy
import json
import os
import pickle
import re
import resource
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

import harpoon
import harpoon.data.dataframe
from harpoon import Harpoon, InvalidOption, ModelFileError
from harpoon._formatting import shorten
from harpoon._utils import model_file
from harpoon.data import dataframe


@pytest.fixture(scope="session")
def saved(arrow_fitted, tmp_path_factory):
    """A saved model, as bytes."""
    path = tmp_path_factory.mktemp("saved") / "model.harpoon"
    arrow_fitted.model.save(path)
    return path.read_bytes()


@pytest.fixture(scope="session")
def refused(tmp_path_factory):
    """A function that asserts that bytes are refused as a model file, and returns the message."""
    path = tmp_path_factory.mktemp("refused") / "model.harpoon"

    def check(data):
        path.write_bytes(data)
        with pytest.raises(ModelFileError, match=r"model\.harpoon") as caught:
            harpoon.load(path, progress=False)
        return str(caught.value)

    return check


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def parts(data):
    """Return the header and the tensors of a safetensors file."""
    (length,) = struct.unpack("<Q", data[:8])
    return data[8 : 8 + length], data[8 + length :]


def join(header, tensors):
    return struct.pack("<Q", len(header)) + header + tensors


def with_metadata(data, text):
    """Return the file with another text in its header and the same tensors."""
    header, tensors = parts(data)
    content = json.loads(header)
    content["__metadata__"] = {model_file.KEY: text}
    return join(json.dumps(content).encode(), tensors)


@pytest.fixture(scope="session")
def signed(saved, tmp_path_factory):
    """A function that puts any text into the file with a valid checksum, as an attacker would."""
    path = tmp_path_factory.mktemp("signed") / "m"
    path.write_bytes(saved)
    tensors, _ = model_file.read_tensors(path)
    return lambda text: with_metadata(saved, f"{model_file._checksum(text, tensors)} {text}")


def test_a_signed_copy_is_read(saved, signed, tmp_path):
    text = json.loads(parts(saved)[0])["__metadata__"][model_file.KEY].partition(" ")[2]
    (tmp_path / "m").write_bytes(signed(text))
    assert harpoon.load(tmp_path / "m", progress=False).sample(2) is not None


@pytest.mark.parametrize("options", [{}, {"encoding": "integer", "scaling": "quantile"}], ids=["paper", "ablation"])
def test_a_loaded_model_gives_the_same_results(frame_of, tools, tmp_path, options):
    table = frame_of(tools.mixed_columns())
    model = tools.fit(table, **options)
    model.save(tmp_path / "m")
    loaded = harpoon.load(tmp_path / "m", progress=False)
    tools.assert_same(loaded.impute(table, random_state=5), model.impute(table, random_state=5))
    tools.assert_same(loaded.impute(table), model.impute(table))
    tools.assert_same(loaded.sample(7, random_state=5), model.sample(7, random_state=5))
    given = {"job": "chef", "age": 30}
    tools.assert_same(loaded.sample(3, given=given), model.sample(3, given=given))
    assert loaded.schema_ == model.schema_
    assert loaded.history_ == model.history_
    assert loaded.config == model.config


def test_saving_a_loaded_model_gives_the_same_file(saved, tmp_path):
    (tmp_path / "a").write_bytes(saved)
    Harpoon.load(tmp_path / "a", progress=False).save(tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == saved


def test_a_loaded_model_can_be_trained_again(saved, tmp_path, arrow_fitted):
    (tmp_path / "a").write_bytes(saved)
    again = Harpoon.load(tmp_path / "a", progress=False).fit(arrow_fitted.table)
    assert again.sample(3).equals(arrow_fitted.model.sample(3))


@pytest.mark.parametrize("name", ["model", "model.harpoon", "größe 雪.bin", "a" * 250])
def test_any_file_name_is_valid(arrow_fitted, tmp_path, name):
    arrow_fitted.model.save(str(tmp_path / name))
    assert names_in(tmp_path) == [name]
    assert harpoon.load(str(tmp_path / name), progress=False).config == arrow_fitted.model.config


def test_saving_respects_the_umask(arrow_fitted, tmp_path):
    old = os.umask(0o027)
    try:
        arrow_fitted.model.save(tmp_path / "m")
    finally:
        os.umask(old)
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o640


@given(fraction=st.floats(0, 1, exclude_max=True))
@settings(max_examples=50, deadline=None)
def test_a_truncated_file_is_refused(saved, refused, fraction):
    refused(saved[: int(fraction * len(saved))])


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 100])
def test_a_file_cut_near_its_start_is_refused(saved, refused, length):
    refused(saved[:length])


def test_a_file_that_lacks_its_last_byte_is_refused(saved, refused):
    refused(saved[:-1])


def test_a_file_with_trailing_bytes_is_refused(saved, refused):
    refused(saved + b"\0")


@given(
    position=st.floats(0, 1, exclude_max=True),
    region=st.sampled_from(["length", "header", "tensors"]),
    bit=st.integers(0, 6),
)
@settings(max_examples=150, deadline=None)
def test_a_flipped_bit_is_refused(saved, refused, position, region, bit):
    header, tensors = parts(saved)
    start = {"length": 0, "header": 8, "tensors": 8 + len(header)}[region]
    size = {"length": 8, "header": len(header), "tensors": len(tensors)}[region]
    damaged = bytearray(saved)
    damaged[start + int(position * size)] ^= 1 << bit
    refused(bytes(damaged))


@pytest.mark.parametrize("key", ["config", "schema", "codec", "frame", "random_state", "preset", "history"])
def test_a_flipped_bit_in_each_part_of_the_content_is_refused(saved, refused, key):
    header, tensors = parts(saved)
    start = re.search(rb'\\+"%s\\+"' % key.encode(), header).start()
    for offset in range(0, 60, 7):
        damaged = bytearray(header)
        damaged[start + offset] ^= 1
        refused(join(bytes(damaged), tensors))


@pytest.mark.parametrize("field", ["mean", "std", "minimum", "guidance_scale", "random_state", "diffusion_steps"])
def test_a_changed_digit_in_the_content_is_refused(saved, refused, field):
    header, tensors = parts(saved)
    digit = re.search(rb'%s\\+": -?(\d)' % field.encode(), header).start(1)
    other = b"5" if header[digit : digit + 1] != b"5" else b"6"
    refused(join(header[:digit] + other + header[digit + 1 :], tensors))


class Trap:
    """An object whose pickle makes a folder when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_pickle_is_refused_and_not_executed(refused, tmp_path):
    trap = tmp_path / "executed"
    refused(pickle.dumps(Trap(trap)))
    assert not trap.exists()


def test_a_torch_file_is_refused_and_not_executed(refused, tmp_path):
    trap = tmp_path / "executed"
    torch.save({"x": Trap(trap)}, tmp_path / "m")
    refused((tmp_path / "m").read_bytes())
    assert not trap.exists()


def test_a_pickle_in_the_header_is_not_executed(saved, refused, tmp_path):
    trap = tmp_path / "executed"
    refused(with_metadata(saved, pickle.dumps(Trap(trap), protocol=0).decode()))
    assert not trap.exists()


def test_foreign_files_are_refused(refused, tmp_path):
    for data in (b"", b"hello\n", b"{}", b"\0" * 100, b"\xff" * 100, np.arange(500.0).tobytes()):
        refused(data)
    with zipfile.ZipFile(tmp_path / "z", "w") as archive:
        archive.writestr("a", "b")
    refused((tmp_path / "z").read_bytes())


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_plain_safetensors_file_is_refused(refused, tmp_path, metadata):
    save_file({"x": torch.zeros(3)}, tmp_path / "m", metadata=metadata)
    assert "not a Harpoon model" in refused((tmp_path / "m").read_bytes())


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match=tmp_path.name):
        harpoon.load(tmp_path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match=r"There is no model file.*nothing"):
        harpoon.load(tmp_path / "nothing")


@pytest.mark.parametrize(
    "path", ["a\0b", None, 5, b"\xff", "x" * 5000], ids=["null byte", "None", "5", "bytes", "long"]
)
def test_an_invalid_path_is_refused(arrow_fitted, path):
    with pytest.raises(harpoon.HarpoonError):
        harpoon.load(path)
    with pytest.raises(harpoon.HarpoonError):
        arrow_fitted.model.save(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "5",
        '"x"',
        "{",
        "{}",
        '{"format": null}',
        '{"format": "1"}',
        '{"format": 1}',
        '{"format": true}',
        '{"format": 0}',
        '{"format": -1}',
        '{"format": 1.0}',
        '{"format": NaN}',
        '{"format": 1, "checksum": null}',
    ],
)
def test_a_header_without_content_is_refused(saved, signed, refused, text):
    refused(with_metadata(saved, text))
    refused(signed(text))


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"a":' * 200_000, f'{{"format": {"1" * 10_000}}}'], ids=["deep", "deeper", "long"]
)
def test_a_header_that_exhausts_the_parser_is_refused(saved, signed, refused, text):
    refused(with_metadata(saved, text))
    refused(signed(text))


@pytest.fixture(scope="session")
def rewritten(saved, tmp_path_factory):
    """A function that returns the file with changed content or tensors and a valid checksum."""
    path = tmp_path_factory.mktemp("rewritten") / "m"

    def rewrite(change, data=saved):
        path.write_bytes(data)
        tensors, content = model_file.read_tensors(path)
        content = {k: v for k, v in content.items() if k not in ("format", "version", "checksum")}
        change(content, tensors)
        model_file.write_tensors(path, tensors, content)
        return path.read_bytes()

    return rewrite


@pytest.fixture(scope="session")
def with_codec(saved, tools, tmp_path_factory):
    """For each codec, the bytes of a saved model that uses it."""
    path = tmp_path_factory.mktemp("encoded") / "m"
    tools.fit(tools.make("pyarrow", tools.mixed_columns()), preset="paper").save(path)
    plain = path.read_bytes()
    with pytest.warns(harpoon.CategoriesGroupedWarning):
        tools.fit(tools.make("pyarrow", {"zip": [f"{i:03}" for i in range(300)] * 2})).save(path)
    return {
        "NumericCodec": plain,
        "OneHotCodec": saved,
        "SpikedNumericCodec": saved,
        "HierarchicalCodec": path.read_bytes(),
    }


def test_a_newer_format_is_refused_with_advice(rewritten, refused):
    newer = {"format": model_file.FORMAT + 1, "version": "99.9"}
    message = refused(rewritten(lambda content, tensors: content.update(newer)))
    assert "99.9" in message
    assert "Update" in message


def test_an_older_format_is_refused_with_advice(saved, signed, refused):
    message = refused(signed('{"format": 1, "version": "0.0"}'))
    assert "format 1" in message
    assert "Train the model again." in message


def test_rewriting_without_a_change_is_fine(rewritten, saved):
    assert rewritten(lambda content, tensors: None) == saved


def with_option(name, value):
    return lambda content, tensors: content["config"].__setitem__(name, value)


HOSTILE_OPTIONS = [
    ("hidden", 0),
    ("hidden", 10**9),
    ("hidden", -2),
    ("hidden", 17),
    ("hidden", "16"),
    ("hidden", True),
    ("hidden", 18),
    ("hidden", [16]),
    ("diffusion_steps", 0),
    ("diffusion_steps", 10**12),
    ("diffusion_steps", 1.5),
    ("beta_start", 2),
    ("beta_end", None),
    ("beta_end", float("nan")),
    ("beta_end", float("inf")),
    ("reconstruction_loss", "os.system"),
    ("reconstruction_loss", ["mae"]),
    ("encoding", "pickle"),
    ("encoding", {}),
    ("guidance_scale", float("nan")),
    ("sampling_batch_size", 0),
    ("unknown", 1),
    ("device", "cpu"),
    ("preset", "paper"),
    ("schema", "x"),
    ("progress", 3),
    ("random_state", 4),
]


@pytest.mark.parametrize(("name", "value"), HOSTILE_OPTIONS, ids=str)
def test_options_out_of_range_are_refused(rewritten, refused, name, value):
    refused(rewritten(with_option(name, value)))


PARTS = ["preset", "config", "adapted", "random_state", "given_schema", "schema", "codec", "frame", "history"]


@pytest.mark.parametrize("key", PARTS)
def test_a_missing_part_is_refused(rewritten, refused, key):
    refused(rewritten(lambda content, tensors: content.pop(key)))


WRONG_TYPES = [5, "x", [], [1], {}, {"x": 1}, True, [[[]]], -1, 1.5]
VALID = [("random_state", 5), ("config", {})]


@pytest.mark.parametrize(
    ("key", "value"), [(k, v) for k in PARTS for v in WRONG_TYPES if (k, v) not in VALID], ids=repr
)
def test_a_part_of_the_wrong_type_is_refused(rewritten, refused, key, value):
    refused(rewritten(lambda content, tensors: content.__setitem__(key, value)))


def test_sizes_that_are_missing_or_differ_from_the_options_are_refused(rewritten, refused, arrow_fitted):
    bins = arrow_fitted.model.config_.rank_bins
    refused(rewritten(lambda content, tensors: content["adapted"].pop("rank_bins")))
    refused(rewritten(lambda content, tensors: content["adapted"].__setitem__("rank_bins", 2 * bins)))
    refused(rewritten(with_option("rank_bins", 2 * bins)))


def column(which, changes):
    def change(content, tensors):
        schema = json.loads(content["schema"])
        next(c for c in schema["columns"] if c["name"] == which).update(changes)
        content["schema"] = json.dumps(schema)

    return change


HOSTILE_COLUMNS = [
    ("job", {"kind": "number"}),
    ("job", {"kind": "text"}),
    ("job", {"categories": ["a"]}),
    ("job", {"categories": None}),
    ("job", {"categories": [["a"], ["b"], ["c"]]}),
    ("job", {"categories": ["a", "a", "a"]}),
    ("job", {"categories": "abc"}),
    ("job", {"categories": {"a": 1, "b": 2, "c": 3}}),
    ("job", {"categories": [1, "a", None]}),
    ("job", {"name": "age"}),
    ("job", {"name": 5}),
    ("job", {"name": "other"}),
    ("job", {"kind": ["category"]}),
    ("age", {"kind": "category"}),
    ("age", {"minimum": "x"}),
    ("age", {"minimum": 1e400}),
    ("age", {"minimum": float("nan")}),
    ("age", {"minimum": 10**30}),
    ("age", {"minimum": 90, "maximum": 10}),
    ("age", {"maximum": None}),
    ("age", {"step": -1}),
    ("age", {"step": "1"}),
    ("age", {"step": 10**30}),
    ("age", {"step": float("nan")}),
    ("price", {"step": -0.01}),
    ("price", {"step": 1e400}),
    ("age", {"unit": 5}),
    ("age", {"clip": "yes"}),
    ("age", {"missing": "x"}),
    ("member", {"categories": ["no", "yes"]}),
    ("member", {"categories": [False, True, False]}),
    ("age", {"extra": 1}),
    ("age", {"kind": "datetime", "unit": "week"}),
]


@pytest.mark.parametrize(("name", "changes"), HOSTILE_COLUMNS, ids=str)
def test_an_invalid_schema_is_refused(rewritten, refused, name, changes):
    refused(rewritten(column(name, changes)))


def codec_item(kind, **changes):
    def change(content, tensors):
        next(item for item in content["codec"] if item["codec"] == kind).update(changes)

    return change


def normal_scores(**changes):
    """Valid normal scores, but for the changes."""
    return {"values": [1.0, 2.0], "low": [0.25, 0.5], "high": [0.5, 0.75], "std": 1.0, **changes}


def evenly(count):
    ends = [(index + 1) / (count + 2) for index in range(count + 1)]
    return {"values": list(range(count)), "low": ends[:-1], "high": ends[1:]}


HOSTILE_CODECS = [
    ("NumericCodec", {"mean": "x"}),
    ("NumericCodec", {"mean": None}),
    ("NumericCodec", {"mean": float("nan")}),
    ("NumericCodec", {"mean": float("inf")}),
    ("NumericCodec", {"std": 0}),
    ("NumericCodec", {"std": -1}),
    ("NumericCodec", {"std": float("nan")}),
    ("NumericCodec", {"std": float("inf")}),
    ("NumericCodec", {"scaling": "quantile"}),
    ("NumericCodec", {"scaling": "none"}),
    ("NumericCodec", {"scaling": []}),
    ("NumericCodec", {"scaling": "quantile", "quantiles": []}),
    ("NumericCodec", {"scaling": "quantile", "quantiles": ["x"]}),
    ("NumericCodec", {"scaling": "quantile", "quantiles": [3.0, 1.0]}),
    ("NumericCodec", {"scaling": "quantile", "quantiles": [0.0, float("nan")]}),
    ("NumericCodec", {"codec": "OneHotCodec"}),
    ("NumericCodec", {"codec": "OrdinalCodec"}),
    ("NumericCodec", {"codec": "exec"}),
    ("NumericCodec", {"codec": None}),
    ("NumericCodec", {"codec": "SpikedNumericCodec", "normal_scores": None, "spikes": [0.5]}),
    ("NumericCodec", {"mean": 10**400}),
    ("OneHotCodec", {"codec": "NumericCodec", "scaling": "standard", "mean": 0, "std": 1}),
    ("OneHotCodec", {"codec": "SpikedNumericCodec", "scaling": "standard", "mean": 0, "std": 1}),
    ("OneHotCodec", {"codec": "HierarchicalCodec", "frequent": [0]}),
    ("OneHotCodec", {"codec": "HierarchicalCodec", "frequent": [0, 1, 2]}),
    ("SpikedNumericCodec", {"codec": "NumericCodec"}),
    ("SpikedNumericCodec", {"codec": "OneHotCodec"}),
    ("SpikedNumericCodec", {"mean": "x"}),
    ("SpikedNumericCodec", {"std": 0}),
    ("SpikedNumericCodec", {"scaling": []}),
    ("SpikedNumericCodec", {"normal_scores": None}),
    ("SpikedNumericCodec", {"normal_scores": None, "spikes": []}),
    ("SpikedNumericCodec", {"normal_scores": 5}),
    ("SpikedNumericCodec", {"normal_scores": []}),
    ("SpikedNumericCodec", {"normal_scores": {}}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(values=[])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(values=[], low=[], high=[])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(values=[1.0])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(low=[0.25])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(high=[0.5, 0.6, 0.75])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(values=[2.0, 1.0])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(values=[1.0, 1.0])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(values=[1.0, float("nan")])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(values=[1.0, float("inf")])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(values=[1, 10**400])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(values="12")}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(values=["1", "2"])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(values=[False, True])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(values=[[1.0], [2.0]])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(values={"1": 2})}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(low=[0.5, 0.25])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(low=[0.25, 0.4])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(low=[0.0, 0.5])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(low=[-0.5, 0.5])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(high=[0.5, 1.0])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(high=[0.5, float("nan")])}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(std=0)}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(std=-1.0)}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(std="1")}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(std=None)}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(std=float("inf"))}),
    ("SpikedNumericCodec", {"normal_scores": normal_scores(**evenly(1001))}),
    ("SpikedNumericCodec", {"spikes": None}),
    ("SpikedNumericCodec", {"spikes": "12"}),
    ("SpikedNumericCodec", {"spikes": [float("nan")]}),
    ("SpikedNumericCodec", {"spikes": [2.0, 1.0]}),
    ("SpikedNumericCodec", {"spikes": [1.0, 1.0]}),
    ("SpikedNumericCodec", {"spikes": [10**400]}),
    ("SpikedNumericCodec", {"spikes": list(range(33))}),
    ("HierarchicalCodec", {"frequent": []}),
    ("HierarchicalCodec", {"frequent": None}),
    ("HierarchicalCodec", {"frequent": "012"}),
    ("HierarchicalCodec", {"frequent": {"0": 1}}),
    ("HierarchicalCodec", {"frequent": [-1, *range(63)]}),
    ("HierarchicalCodec", {"frequent": [*range(63), 300]}),
    ("HierarchicalCodec", {"frequent": [*range(63), 10**400]}),
    ("HierarchicalCodec", {"frequent": [*range(63), 62]}),
    ("HierarchicalCodec", {"frequent": [*range(1, 64), 0]}),
    ("HierarchicalCodec", {"frequent": [float(index) for index in range(64)]}),
    ("HierarchicalCodec", {"frequent": [[index] for index in range(64)]}),
    ("HierarchicalCodec", {"frequent": [False, True, *range(2, 64)]}),
    ("HierarchicalCodec", {"frequent": list(range(65))}),
    ("HierarchicalCodec", {"frequent": list(range(300))}),
    ("HierarchicalCodec", {"codec": "OneHotCodec"}),
    ("HierarchicalCodec", {"codec": "SpikedNumericCodec", "normal_scores": None, "spikes": [1.0]}),
]


@pytest.mark.parametrize(("kind", "changes"), HOSTILE_CODECS, ids=lambda value: shorten(str(value)))
def test_an_invalid_codec_is_refused(rewritten, refused, with_codec, kind, changes):
    refused(rewritten(codec_item(kind, **changes), with_codec[kind]))


def test_valid_normal_scores_and_frequent_categories_are_read(rewritten, with_codec, tmp_path):
    for kind, changes in (
        ("SpikedNumericCodec", {"normal_scores": normal_scores()}),
        ("HierarchicalCodec", {"frequent": list(range(100, 164))}),
    ):
        (tmp_path / "m").write_bytes(rewritten(codec_item(kind, **changes), with_codec[kind]))
        assert harpoon.load(tmp_path / "m", progress=False).sample(3).num_rows == 3


@pytest.mark.parametrize("values", [[-1e308, 1e308], [1e300, 1.7e308], [0.0, 5e-324]], ids=str)
def test_extreme_normal_scores_still_decode_to_the_range_of_the_column(rewritten, with_codec, tmp_path, values, tools):
    far = normal_scores(values=values, std=1e308)
    (tmp_path / "m").write_bytes(
        rewritten(codec_item("SpikedNumericCodec", normal_scores=far), with_codec["SpikedNumericCodec"])
    )
    loaded = harpoon.load(tmp_path / "m", progress=False)
    column = loaded.schema_["height"]
    assert all(
        column.minimum <= v <= column.maximum for v in tools.read_back(loaded.sample(50, missing="complete"))["height"]
    )


HOSTILE_FRAMES = [
    {"library": "numpy"},
    {"library": None},
    {"library": ["pandas"]},
    {"schema": "!!"},
    {"schema": ""},
    {"schema": "AAAA"},
    {"schema": None},
    {"schema": "/////wAAAAA="},
    {"schema": "A" * 400},
    {"schema": "//////8AAAA="},
    {"enums": 5},
    {"enums": None},
]


@pytest.mark.parametrize("changes", HOSTILE_FRAMES, ids=str)
def test_an_invalid_frame_is_refused(rewritten, refused, changes):
    refused(rewritten(lambda content, tensors: content["frame"].update(changes)))


def test_a_frame_that_lacks_a_column_is_refused(rewritten, refused):
    import pyarrow as pa

    other = harpoon.data.dataframe.read(pa.table({"x": [1.0]})).template.to_json()
    refused(rewritten(lambda content, tensors: content["frame"].update(other)))


def test_a_frame_with_other_types_is_refused(rewritten, refused):
    import pyarrow as pa

    names = ["height", "price", "age", "job", "member"]
    other = harpoon.data.dataframe.read(pa.table({name: [[1]] for name in names})).template.to_json()
    refused(rewritten(lambda content, tensors: content["frame"].update(other)))


@pytest.mark.parametrize(
    "history",
    [{"epochs": [{}], "stopped_by": ""}, {"epochs": 5, "stopped_by": ""}, {"epochs": [{"zzz": 1}], "stopped_by": ""}],
    ids=str,
)
def test_an_invalid_history_is_refused(rewritten, refused, history):
    refused(rewritten(lambda content, tensors: content.__setitem__("history", history)))


def drop(content, tensors):
    tensors.pop(next(iter(tensors)))


def add(content, tensors):
    tensors["extra"] = torch.zeros(2)


def reshape(content, tensors):
    name = next(n for n in tensors if n.endswith("weight"))
    tensors[name] = tensors[name][:-1]


def doubles(content, tensors):
    tensors.update({name: value.double() for name, value in tensors.items()})


def integers(content, tensors):
    tensors.update({name: value.to(torch.int32) for name, value in tensors.items()})


def nans(content, tensors):
    weights = {name: value for name, value in tensors.items() if value.is_floating_point()}
    tensors.update({name: torch.full_like(value, float("nan")) for name, value in weights.items()})


def infinite(content, tensors):
    tensors["rank_head.copies.relations.weights"][:] = torch.inf


def nothing(content, tensors):
    tensors.clear()


@pytest.mark.parametrize("change", [drop, add, reshape, doubles, integers, nans, infinite, nothing])
def test_tensors_that_do_not_fit_are_refused(rewritten, refused, change):
    refused(rewritten(change))


def test_saving_into_a_missing_folder_is_refused_and_leaves_nothing(arrow_fitted, tmp_path):
    with pytest.raises(ModelFileError, match="missing"):
        arrow_fitted.model.save(tmp_path / "missing" / "m")
    assert list(tmp_path.iterdir()) == []


def test_saving_under_a_file_is_refused_and_leaves_it(arrow_fitted, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ModelFileError, match="file"):
        arrow_fitted.model.save(tmp_path / "file" / "m")
    assert (tmp_path / "file").read_text() == "x"


def test_saving_over_a_directory_is_refused_and_leaves_it(arrow_fitted, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").write_text("x")
    with pytest.raises(ModelFileError, match="folder"):
        arrow_fitted.model.save(tmp_path / "folder")
    assert names_in(tmp_path) == ["folder"]
    assert names_in(tmp_path / "folder") == ["inside"]


def test_saving_over_a_file_replaces_it(arrow_fitted, saved, tmp_path):
    (tmp_path / "m").write_bytes(b"old")
    arrow_fitted.model.save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == saved
    assert names_in(tmp_path) == ["m"]


def test_a_write_that_fails_keeps_the_old_file_and_leaves_nothing(arrow_fitted, tmp_path):
    (tmp_path / "m").write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # as a full disk would
    try:
        with pytest.raises(ModelFileError, match="cannot be written"):
            arrow_fitted.model.save(tmp_path / "m")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "m").read_bytes() == b"old"
    assert names_in(tmp_path) == ["m"]


def test_a_failed_save_leaves_the_model_unchanged(arrow_fitted, tmp_path):
    before = arrow_fitted.model.sample(3)
    with pytest.raises(ModelFileError):
        arrow_fitted.model.save(tmp_path)
    assert arrow_fitted.model.sample(3).equals(before)


def test_saving_through_a_link_writes_its_target(arrow_fitted, saved, tmp_path):
    (tmp_path / "m").symlink_to(tmp_path / "real")
    arrow_fitted.model.save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == saved


def test_a_wrong_device_is_not_a_damaged_file(saved):
    with pytest.raises(InvalidOption, match="device"):
        harpoon.load(saved, device="abacus")


def test_a_checkpoint_that_is_no_path_is_refused():
    with pytest.raises(InvalidOption, match="checkpoint must be the path"):
        harpoon.Harpoon(hidden=16, max_epochs=1, progress=False).fit(pa.table({"x": [1.0, 2.0] * 10}), checkpoint=5)


@pytest.mark.parametrize("wanted", ["pandas", "polars", "pyarrow"])
def test_a_loaded_model_samples_tables_of_any_library(fitted, tools, tmp_path, wanted):
    fitted.model.save(tmp_path / "m")
    rows = harpoon.load(tmp_path / "m", library=wanted, progress=False).sample(5, random_state=0)
    assert type(rows).__module__.partition(".")[0] == wanted
    assert tools.read_back(rows) == tools.read_back(fitted.model.sample(5, random_state=0))


def test_an_invalid_library_is_an_error(arrow_fitted, tmp_path, monkeypatch):
    arrow_fitted.model.save(tmp_path / "m")
    with pytest.raises(
        harpoon.InvalidOption, match="library must be one of 'pandas', 'polars', 'pyarrow', got 'panda'"
    ):
        harpoon.load(tmp_path / "m", library="panda")
    monkeypatch.setattr(dataframe, "find_spec", lambda _: None)
    with pytest.raises(harpoon.InvalidOption, match="needs the package polars, which is not installed"):
        harpoon.load(tmp_path / "m", library="polars")


@pytest.mark.parametrize("missing", [(), ("pandas",), ("pandas", "polars")])
def test_a_model_without_a_library_takes_the_first_that_is_installed(arrow_fitted, tmp_path, monkeypatch, missing):
    model = copy.copy(arrow_fitted.model)
    model.template_ = model.template_.with_library(dataframe.ANY_LIBRARY)
    model.save(tmp_path / "m")
    monkeypatch.setattr(dataframe, "find_spec", lambda name: None if name in missing else name)
    expected = dataframe.LIBRARIES[len(missing)]
    assert harpoon.load(tmp_path / "m").template_.library == expected
