"""Options are checked, and the documentation has every one of them."""

import os

import pytest
from conftest import TOP
from kvasir.vllm.options import Options


def test_options_have_defaults():
    assert Options.parse({}) == Options()


def test_options_take_what_is_given():
    options = Options.parse({"address": "unix:///tmp/k", "timeout_ms": 5, "save": False})
    assert (options.address, options.timeout_ms, options.save) == ("unix:///tmp/k", 5, False)


def test_options_name_an_unknown_option_and_the_nearest_known_one():
    with pytest.raises(ValueError, match=r"unknown option 'addresses'.*did you mean 'address'"):
        Options.parse({"addresses": "tcp://h:1"})


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"timeout_ms": "5"}, "'timeout_ms' is '5', must be a whole number"),
        ({"timeout_ms": True}, "must be a whole number"),
        ({"timeout_ms": 0}, "must be 1 to 600000"),
        ({"save": 1}, "must be true or false"),
        ({"address": "redis://h"}, "must be tcp://host:port or unix:///path"),
        ({"namespace": "a b"}, "'namespace' is 'a b'"),
        ({"staging": "never"}, "must be 'auto' or 'always'"),
        ({"password": None}, "must be a text"),
    ],
)
def test_options_say_what_is_wrong_and_what_is_allowed(extra, words):
    with pytest.raises(ValueError, match=words):
        Options.parse(extra)


def test_options_are_all_documented_with_their_defaults():
    with open(os.path.join(TOP, "python", "VLLM.md"), encoding="utf-8") as file:
        text = file.read()
    for name, default, doc in Options.table():
        shown = str(default).lower() if isinstance(default, bool) else str(default) or "empty"
        assert f"| `{name}` | {shown} | {doc} |" in text, name
