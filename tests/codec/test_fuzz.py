"""Every input that is kept for the fuzzers is tried by both twins at every run of the tests."""

import pytest

fuzz = pytest.importorskip("tests.codec.fuzz", exc_type=ImportError)  # without the core there is nothing to compare


@pytest.mark.parametrize("path", sorted(fuzz.DATA.iterdir()), ids=lambda path: path.name)
def test_the_twins_agree_about_a_kept_input(path):
    data = path.read_bytes()

    for choice in range(4):  # what broke one function may break another
        fuzz.try_input(bytes([choice]) + data[1:])


def test_a_difference_is_found(monkeypatch):
    monkeypatch.setattr(fuzz.twin, "encode_ints", lambda values: b"")
    with pytest.raises(AssertionError):
        fuzz.try_input(b"\1\0\0" + bytes(8))


def test_the_seeds_are_the_kept_inputs_and_the_suite(tmp_path):
    suite = tmp_path / "suite"
    (suite / "test_parsing").mkdir(parents=True)
    (suite / "test_parsing" / "y.json").write_bytes(b"[1]")
    fuzz.write_seeds(tmp_path / "seeds", suite)
    names = {path.name for path in (tmp_path / "seeds").iterdir()}

    assert names == {path.name for path in fuzz.DATA.iterdir()} | {"suite_0_document", "suite_0_rows"}
    for path in (tmp_path / "seeds").iterdir():
        fuzz.try_input(path.read_bytes())
