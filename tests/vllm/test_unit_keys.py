"""Fingerprints, keys, markers and the identity of weights."""

import json

import pytest
from kvasir.vllm.keys import (
    Fingerprint,
    Marker,
    block_keys,
    hash_seed_identity,
    key_prefix,
    marker_key,
    weights_identity,
)

FIELDS = {"model": "m", "dtype": "bf16", "block_size": 16, "tensor_rank": 0, "layout": ["a", "b"]}


def test_fingerprint_is_the_same_for_the_same_fields_in_any_order():
    turned = dict(reversed(list(FIELDS.items())))
    assert Fingerprint(FIELDS).hex() == Fingerprint(turned).hex()


@pytest.mark.parametrize("name", list(FIELDS))
def test_fingerprint_changes_with_every_field(name):
    other = {**FIELDS, name: "something else"}
    assert Fingerprint(FIELDS).hex() != Fingerprint(other).hex()


def test_fingerprint_changes_with_the_salt_and_does_not_show_it():
    salted = Fingerprint(FIELDS, "secret-salt")
    assert salted.hex() != Fingerprint(FIELDS).hex()
    assert "secret-salt" not in json.dumps(salted.public())


def test_key_has_version_namespace_fingerprint_and_the_whole_hash():
    prefix = key_prefix("prod", "0123456789abcdef")
    assert block_keys(prefix, [b"\0\xff:x"]) == [b"kv1:prod:0123456789abcdef:\0\xff:x"]
    assert key_prefix("", "0123456789abcdef") == b"kv1:0123456789abcdef:"


def test_marker_key_is_no_block_key():
    assert not marker_key("", "m").startswith(b"kv1:")
    assert marker_key("a", "m") != marker_key("b", "m")


def test_hash_seed_identity_tells_fixed_random_and_set_seeds_apart():
    words = {
        hash_seed_identity("sha256", {}),
        hash_seed_identity("xxhash_cbor", {}),
        hash_seed_identity("sha256", {"PYTHONHASHSEED": "7"}),
        hash_seed_identity("sha256", {"PYTHONHASHSEED": "8"}),
    }
    assert len(words) == 4


def test_weights_identity_sees_one_changed_byte_at_either_end(tmp_path):
    file = tmp_path / "model.safetensors"
    content = bytearray(100_000)
    found = set()
    for at in (None, 0, len(content) - 1):
        changed = bytearray(content)
        if at is not None:
            changed[at] ^= 1
        file.write_bytes(changed)
        found.add(weights_identity(str(tmp_path)))
    assert len(found) == 3
    assert "" not in found


def test_weights_identity_is_empty_where_no_weights_are(tmp_path):
    assert weights_identity(str(tmp_path)) == ""
    assert weights_identity(str(tmp_path / "absent")) == ""


def test_marker_survives_the_way_through_the_store():
    marker = Marker()
    assert marker.add(Fingerprint(FIELDS))
    again = Marker.decode(marker.encode())
    assert again.entries == marker.entries
    assert not again.add(Fingerprint(FIELDS))


@pytest.mark.parametrize(
    "raw",
    [None, b"", b"\xff\xfe", b"[]", b"7", b'{"not hex": {}}', b'{"0123456789abcdef": 3}', b"{" * 50],
)
def test_marker_of_foreign_bytes_is_empty(raw):
    assert Marker.decode(raw).entries == {}


def test_marker_says_which_field_differs():
    ours = Fingerprint(FIELDS)
    theirs = Fingerprint({**FIELDS, "block_size": 32})
    marker = Marker()
    marker.add(theirs)
    assert marker.others([ours.hex()]) == [theirs.hex()]
    assert marker.differences(ours, theirs.hex()) == ["block_size: 32, here 16"]


def test_marker_says_salt_when_nothing_else_differs():
    marker = Marker()
    marker.add(Fingerprint(FIELDS, "other"))
    assert marker.differences(Fingerprint(FIELDS), Fingerprint(FIELDS, "other").hex()) == [
        "cache_salt"
    ]


def test_marker_keeps_the_newest_entries():
    marker = Marker()
    for i in range(Marker.LIMIT + 5):
        marker.add(Fingerprint({"i": i}))
    assert len(marker.entries) == Marker.LIMIT
    assert Fingerprint({"i": Marker.LIMIT + 4}).hex() in marker.entries
    assert Fingerprint({"i": 0}).hex() not in marker.entries
