import unittest

import numpy as np

from cpeq import Fixture, FormatError, documents, local_batch
from tests.support import FolderTest, ids

PLAIN = {"input_ids": ids([10, 11, 12, 13, 14]), "labels": ids([10, 11, 12, 13, 14])}


class Cutting(FolderTest):
    def local(self, batch, rank, size, **options):
        return local_batch(Fixture(self.write(batch)), rank, size, **options)

    def test_labels_are_shifted_before_the_cut(self):
        """The last token of a rank still predicts the first of the next."""
        ranks = [self.local(PLAIN, rank, 4) for rank in range(4)]
        self.assertEqual([r.shift_labels.tolist() for r in ranks],
                         [[[11, 12]], [[13, 14]], [[-100, -100]], [[-100, -100]]])
        self.assertEqual([r.loss_count for r in ranks], [2, 2, 0, 0])
        self.assertEqual({r.num_items for r in ranks}, {4})

    def test_padding(self):
        last = self.local(PLAIN, 3, 4)
        self.assertEqual(last.input_ids.tolist(), [[3, 3]])
        self.assertEqual(last.position_ids.tolist(), [[6, 7]])
        self.assertEqual(last.document_ids.tolist(), [[-1, -1]])
        self.assertEqual(last.attention_mask.tolist(), [[0, 0]])
        self.assertEqual(last.token_index.tolist(), [-1, -1])

    def test_padding_continues_the_positions_of_the_last_document(self):
        packed = {**PLAIN, "position_ids": ids([0, 1, 0, 1, 2])}
        self.assertEqual(self.local(packed, 1, 2).position_ids.tolist(), [[1, 2, 3]])

    def test_embeddings_are_padded_with_zeros(self):
        embeds = {"inputs_embeds": np.ones((1, 3, 2), np.float32), "labels": ids([1, 2, 3])}
        local = self.local(embeds, 1, 2)
        self.assertIsNone(local.input_ids)
        self.assertEqual(local.inputs_embeds.tolist(), [[[1, 1], [0, 0]]])

    def test_shift_labels_are_taken_as_they_are(self):
        batch = {"input_ids": PLAIN["input_ids"], "shift_labels": ids([1, -100, 3, 4, 5])}
        local = self.local(batch, 0, 2)
        self.assertEqual(local.shift_labels.tolist(), [[1, -100, 3]])
        self.assertEqual((local.loss_count, local.num_items), (2, 4))

    def test_a_given_divisor_holds(self):
        self.assertEqual(self.local({**PLAIN, "num_items_in_batch": np.int64(23)}, 0, 2).num_items, 23)

    def test_rows_of_one_data_parallel_rank(self):
        two = {name: np.concatenate([array, array + 10]) for name, array in PLAIN.items()}
        local = self.local(two, 0, 2, rows=[1])
        self.assertEqual(local.input_ids.tolist(), [[20, 21, 22]])
        self.assertEqual((local.batch_index.tolist(), local.num_items), ([1], 8))

    def test_zigzag(self):
        self.assertEqual(self.local(PLAIN, 0, 2, layout="zigzag").input_ids.tolist(), [[10, 11, 3, 3]])

    def test_a_rank_without_tokens(self):
        local = self.local(PLAIN, 1, 2, layout="uneven:5:0")
        self.assertEqual(local.input_ids.shape, (1, 0))
        self.assertEqual((local.token_index.tolist(), local.loss_count, local.num_items), ([], 0, 4))

    def test_padding_behind_each_document(self):
        two = {"input_ids": ids([10, 11, 12, 13, 14], [20, 21, 22, 23, 24]),
               "labels": ids([1, 2, 3, 4, 5], [6, 7, 8, 9, 1]),
               "position_ids": ids([0, 1, 2, 0, 1], [0, 1, 2, 3, 4])}
        local = self.local(two, 0, 2, layout="per_document")
        self.assertEqual(local.token_index.tolist(), [[0, -1, 3, -1], [0, 1, -1, -1]])
        self.assertEqual(local.input_ids.tolist(), [[10, 3, 13, 3], [20, 21, 3, 3]])
        self.assertEqual(local.position_ids.tolist(), [[0, 3, 0, 3], [0, 1, 6, 7]])
        self.assertEqual(local.shift_labels.tolist(), [[2, -100, 5, -100], [7, 8, -100, -100]])
        self.assertEqual(local.document_ids.tolist(), [[0, -1, 1, -1], [0, 0, -1, -1]])

    def test_an_unsharded_batch_is_whole(self):
        local = self.local(PLAIN, 0, 1)
        self.assertEqual(local.token_index.tolist(), [0, 1, 2, 3, 4])
        self.assertEqual(local.input_ids.tolist(), PLAIN["input_ids"].tolist())

    def test_a_batch_without_labels_is_refused(self):
        with self.assertRaisesRegex(FormatError, "/batch: expected labels or shift_labels"):
            self.local({"input_ids": ids([1, 2])}, 0, 2)


class Documents(FolderTest):
    def found(self, **batch):
        return documents(Fixture(self.write({**PLAIN, **batch}))).tolist()

    def test_given(self):
        self.assertEqual(self.found(document_ids=ids([0, 0, 1, 1, -1])), [[0, 0, 1, 1, -1]])

    def test_from_positions(self):
        self.assertEqual(self.found(position_ids=ids([0, 1, 0, 1, 2])), [[0, 0, 1, 1, 1]])

    def test_from_the_mask(self):
        self.assertEqual(self.found(attention_mask=np.array([[0, 0, 1, 1, 1]], np.uint8)), [[-1, -1, 0, 0, 0]])

    def test_neither(self):
        self.assertEqual(self.found(), [[0, 0, 0, 0, 0]])

    def test_restarting_positions_beside_a_mask_are_ambiguous(self):
        with self.assertRaisesRegex(FormatError, "expected document_ids"):
            self.found(position_ids=ids([0, 1, 0, 1, 2]), attention_mask=np.ones((1, 5), np.uint8))


if __name__ == "__main__":
    unittest.main()
