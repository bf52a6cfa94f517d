"""The walk through a database finds every key, however many levels its B-tree has."""

import tensorstore as ts
from etils import epath

from tasks.verify.layout import list_files
from tasks.verify.ocdbt import read_index


def test_a_tree_of_many_levels_is_walked_in_full(tmp_path):
    folder = tmp_path / "a b%41"  # a name that looks like an escaped one
    config = {"max_decoded_node_bytes": 300, "max_inline_value_bytes": 4}
    store = ts.KvStore.open(
        {"driver": "ocdbt", "base": {"driver": "file", "path": f"{folder}/"}, "config": config}
    ).result()
    transaction = ts.Transaction()
    expected = {f"opt state/é/{i:04d}.w/c/{i}": b"x" * (i % 9) for i in range(300)}
    for key, value in expected.items():
        store.with_transaction(transaction)[key.encode()] = value
    transaction.commit_async().result()
    index = read_index(epath.Path(folder), list_files(epath.Path(folder)))
    assert index.problems == []
    assert index.whole
    assert len(index.nodes) > 20
    assert set(index.chunks) == set(expected)
    for key, place in index.chunks.items():
        assert (0 if place is None else place.length) == (len(expected[key]) if len(expected[key]) > 4 else 0)
        if place is not None:
            data = (folder / place.file).read_bytes()
            assert data[place.offset : place.offset + place.length] == expected[key]
