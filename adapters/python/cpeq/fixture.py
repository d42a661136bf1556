"""Fixtures: config, weights, batch and expected results of one training step."""

import hashlib
import json
import os

import h5py
import numpy as np

from cpeq.storage import (FORMAT, FORMAT_VERSION, FormatError, attribute, little_endian, open_h5, quoted, read_stored,
                          strings, text, widened, words, write_array, write_atomically)


class Fixture:
    """One fixture file, checked when opened.

    path      where it was read from
    id        its fixture_id, equal to the hash of what was read
    config    the configuration as a dict; empty where the fixture has none
    weights   name -> array; bfloat16 is widened to float32, which is exact
    tied      name -> other names of the same tensor
    roles     name -> "buffer" or "frozen", for weights that get no gradient
    batch     name -> array
    expected  read on first use: loss, token_loss, logits, grads, ... as nested dicts of arrays
    """

    KIND = "fixture"

    def __init__(self, path):
        self.path = os.fspath(path)
        self._expected = None
        with open_h5(self.path) as file:
            self._check_header(file)
            digest = hashlib.sha256(b"config\0")
            self.config = self._read_config(file, digest)
            self.tied, self.roles = {}, {}
            self.weights = self._read_group(file, "weights", digest)
            self.batch = self._read_group(file, "batch", digest)
            self.id = self._check_id(file, digest)
            self._check_batch()
            self._read_attributes(file)

    @property
    def expected(self):
        if self._expected is None:
            with open_h5(self.path) as file:
                if "expected" not in file:
                    raise FormatError(f"{self.path}: /expected: expected a group, found nothing")
                self._expected = read_tree(file["expected"])
        return self._expected

    @property
    def shape(self):
        """(rows, length) of the batch."""
        return next(self.batch[name] for name in ("input_ids", "inputs_embeds") if name in self.batch).shape[:2]

    def trainable(self):
        """Names of the weights that get a gradient."""
        return [name for name in self.weights if name not in self.roles]

    def _check_header(self, file):
        for name, expected in (("format", FORMAT), ("kind", self.KIND)):
            found = attribute(file, name)
            if found != expected:
                raise FormatError(f"{self.path}: attribute {name}: expected \"{expected}\", found {quoted(found)}")
        version = attribute(file, "format_version")
        if version is None or int(version) != FORMAT_VERSION:
            raise FormatError(f"{self.path}: attribute format_version: expected {FORMAT_VERSION}, found {version}")

    def _read_config(self, file, digest):
        if "config" not in file:
            return {}
        text = file["config"][()]
        text = text if isinstance(text, bytes) else str(text).encode()
        digest.update(text)
        try:
            return json.loads(text)
        except ValueError as error:
            raise FormatError(f"{self.path}: /config: expected JSON, found {error}") from error

    def _read_group(self, file, group, digest):
        arrays = {}
        for name in sorted(file[group]) if group in file else ():
            item = file[group][name]
            if not isinstance(item, h5py.Dataset):
                raise FormatError(f"{self.path}: /{group}/{name}: expected a dataset, found a group")
            stored = read_stored(item)
            hash_array(digest, group, name, stored)
            arrays[name] = widened(item, stored)
            if group == "weights":
                self._read_weight_attributes(name, item)
        return arrays

    def _read_weight_attributes(self, name, item):
        if "tied" in item.attrs:
            tied = item.attrs["tied"]
            self.tied[name] = [text(other) for other in np.atleast_1d(tied)]
        if "role" in item.attrs:
            self.roles[name] = text(item.attrs["role"])

    def _read_attributes(self, file):
        """What else a kind of fixture has at its root."""

    def _check_id(self, file, digest):
        found, computed = attribute(file, "fixture_id"), digest.hexdigest()
        if found != computed:
            raise FormatError(f"{self.path}: attribute fixture_id: expected {computed} (sha256 of config, weights"
                              f" and batch), found {found}")
        return found

    def _check_batch(self):
        kinds = [name for name in ("input_ids", "inputs_embeds") if name in self.batch]
        if len(kinds) != 1:
            raise FormatError(f"{self.path}: /batch: expected one of input_ids and inputs_embeds, found {len(kinds)}")
        self._check_shapes(("attention_mask", "position_ids", "document_ids", "labels", "shift_labels"))
        for name in ("microbatch", "data_parallel"):
            array = self.batch.get(name)
            if array is not None and array.shape != self.shape[:1]:
                raise FormatError(f"{self.path}: /batch/{name}: expected shape {list(self.shape[:1])}, one a row,"
                                  f" found {list(array.shape)}")

    def _check_shapes(self, names, axes=None):
        """Each of these, or its first axes, has the shape of the batch: one entry for each token."""
        for name in names:
            array = self.batch.get(name)
            if array is not None and array.shape[:axes] != self.shape:
                raise FormatError(f"{self.path}: /batch/{name}: expected shape {list(self.shape)}"
                                  f" as all of the batch, found {list(array.shape)}")


class BatchAlone(Fixture):
    """A batch in memory, without a file, weights or results."""

    def __init__(self, batch, config=None):
        self.path, self.id, self.config = "batch", "", config or {}
        self.weights, self.tied, self.roles, self.batch = {}, {}, {}, batch
        self._check_batch()

    def replaced(self, **arrays):
        return BatchAlone({**self.batch, **arrays}, self.config)

    def rows(self, rows):
        """Some of its rows, with the divisor that it has."""
        return BatchAlone({name: value[rows] if value.ndim else value for name, value in self.batch.items()}, self.config)


def write_fixture(path, *, batch, config="", weights=None, tied=None, roles=None, expected=None, attributes=None,
                  producer="cpeq for Python"):
    """Write a fixture, complete or not at all; returns its fixture_id.

    batch       name -> array: input_ids or inputs_embeds, labels or shift_labels, attention_mask, position_ids, ...
    config      text of config.json, or the same as a dict; "" where the fixture serves to compare dumps only
    weights     name -> array or BFloat16; tied: name -> other names of the same tensor; roles: name -> "buffer", "frozen"
    expected    path below /expected -> array: "loss", "token_loss", "logits", "grads/<name>", ...
    attributes  those of /expected: source, precision, order
    """
    text_of_config = config if isinstance(config, str) else json.dumps(config, indent=2, sort_keys=True) + "\n"
    groups = {"weights": weights or {}, "batch": batch}
    digest = hashlib.sha256(b"config\0" + text_of_config.encode())
    for group, arrays in groups.items():
        for name in sorted(arrays):
            hash_array(digest, group, name, little_endian(words(arrays[name])))
    head = {"format": FORMAT, "format_version": FORMAT_VERSION, "kind": "fixture", "producer": producer,
            "fixture_id": digest.hexdigest()}

    def write(file):
        file.attrs.update(head)
        if text_of_config:
            write_array(file, "config", text_of_config)
        for group, arrays in {**groups, "expected": expected or {}}.items():
            for name in sorted(arrays):
                write_array(file.require_group(group), name, arrays[name])
        for name, value in (attributes or {}).items():
            file["expected"].attrs[name] = strings(value)
        for name, others in (tied or {}).items():
            file["weights"][name].attrs["tied"] = strings(list(others))
        for name, role in (roles or {}).items():
            file["weights"][name].attrs["role"] = role

    write_atomically(path, write)
    return head["fixture_id"]


def read_tree(group):
    tree = {}
    for name, item in group.items():
        tree[name] = read_tree(item) if isinstance(item, h5py.Group) else widened(item, read_stored(item))
    return tree


def hash_array(digest, group, name, stored):
    """Add one array to a fixture_id; a scalar counts as shape 1."""
    shape = ",".join(str(extent) for extent in stored.shape or (1,))
    digest.update(f"\0{group}/{name}\0{stored.dtype.str}\0{shape}\0".encode())
    digest.update(np.ascontiguousarray(stored).tobytes())
