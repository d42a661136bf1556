import unittest

import numpy as np

from cpeq import layout


class Layouts(unittest.TestCase):
    def test_contiguous_pads_the_end_of_the_last_ranks(self):
        held = [layout.global_indices(5, rank, 4).tolist() for rank in range(4)]
        self.assertEqual(held, [[0, 1], [2, 3], [4, -1], [-1, -1]])

    def test_zigzag_gives_each_rank_a_head_and_a_tail(self):
        held = [layout.global_indices(7, rank, 2, "zigzag").tolist() for rank in range(2)]
        self.assertEqual(held, [[0, 1, 6, -1], [2, 3, 4, 5]])

    def test_striped_deals_blocks_out_in_turn(self):
        held = [layout.global_indices(7, rank, 2, "striped").tolist() for rank in range(2)]
        self.assertEqual(held, [[0, 2, 4, 6], [1, 3, 5, -1]])
        held = [layout.global_indices(7, rank, 2, "striped:2").tolist() for rank in range(2)]
        self.assertEqual(held, [[0, 1, 4, 5], [2, 3, 6, -1]])

    def test_uneven_is_never_padded(self):
        held = [layout.global_indices(5, rank, 4, "uneven").tolist() for rank in range(4)]
        self.assertEqual(held, [[0, 1], [2], [3], [4]])
        for name in ("uneven:3:0:2", "uneven:3,0,2"):
            held = [layout.global_indices(5, rank, 3, name).tolist() for rank in range(3)]
            self.assertEqual(held, [[0, 1, 2], [], [3, 4]])

    def test_each_document_is_a_zigzag(self):
        held = [layout.global_indices(7, rank, 2, "per_document", [0, 0, 0, 1, 1, 1, 1]).tolist() for rank in range(2)]
        self.assertEqual(held, [[0, -1, 3, 6], [1, 2, 4, 5]])
        documents = [0] * 7 + [1] * 3
        held = [layout.global_indices(10, rank, 2, "per_document", documents).tolist() for rank in range(2)]
        self.assertEqual(held, [[0, 1, 6, -1, 7, -1], [2, 3, 4, 5, 8, 9]])

    def test_padding_of_the_batch_belongs_to_the_document_before_it(self):
        rows = [[-1, 0, 0, -1, 1], [0, 0, 0, 0, 0]]
        self.assertEqual(layout.padded_rows(rows, 2, "per_document").tolist(),
                         [[0, 1, 2, 3, 4, -1, -1, -1], [0, 1, 2, 3, 4, -1, -1, -1]])
        rows = [[0, 1, 1, 2, 2], [0, 0, 0, 0, 0]]  # the second row is shorter, and padded once more
        self.assertEqual(layout.padded_rows(rows, 1, "per_document").tolist(),
                         [[0, -1, 1, 2, 3, 4], [0, 1, 2, 3, 4, -1]])
        self.assertEqual(layout.padded_rows(rows, 2, "per_document").tolist()[1], [0, 1, 2, 3, 4] + 7 * [-1])

    def test_every_token_lies_on_exactly_one_rank(self):
        for name in (*layout.LAYOUTS, "striped:2", "striped:3"):
            for size in (1, 2, 3, 4, 8):
                for length in range(1, 20):
                    with self.subTest(layout=name, size=size, length=length):
                        held = np.concatenate([layout.global_indices(length, r, size, name) for r in range(size)])
                        self.assertEqual(sorted(held[held >= 0]), list(range(length)))
                        self.assertEqual(len(held), layout.padded_length(length, size, name))

    def test_no_padding_where_the_length_fits(self):
        self.assertEqual([layout.padded_length(n, 4) for n in (1, 4, 5, 8)], [4, 4, 8, 8])

    def test_an_unknown_layout_is_refused_by_name(self):
        for name in ("spiral", "", "striped:", "striped:0", "striped:2:2", "zigzag:2", "uneven:", "uneven:3:x"):
            with self.assertRaisesRegex(ValueError, f'layout "{name}": expected one of contiguous, zigzag'):
                layout.global_indices(8, 0, 2, name)

    def test_cuts_that_do_not_fit_are_refused(self):
        for name, found in (("uneven:3:4", "found those of 2, 7 in all"), ("uneven:8", "found those of 1, 8 in all")):
            with self.assertRaisesRegex(ValueError, f"expected the tokens of 2 ranks, 8 in all, {found}"):
                layout.global_indices(8, 0, 2, name)

    def test_a_rank_outside_the_group_is_refused(self):
        with self.assertRaisesRegex(ValueError, "rank 2: expected 0 to 1"):
            layout.global_indices(8, 2, 2)


if __name__ == "__main__":
    unittest.main()
