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

    def test_every_token_lies_on_exactly_one_rank(self):
        for name in layout.LAYOUTS:
            for size in (1, 2, 3, 4, 8):
                for length in range(1, 20):
                    with self.subTest(layout=name, size=size, length=length):
                        held = np.concatenate([layout.global_indices(length, r, size, name) for r in range(size)])
                        self.assertEqual(sorted(held[held >= 0]), list(range(length)))
                        self.assertEqual(len(held), layout.padded_length(length, size, name))

    def test_no_padding_where_the_length_fits(self):
        self.assertEqual([layout.padded_length(n, 4) for n in (1, 4, 5, 8)], [4, 4, 8, 8])

    def test_an_unknown_layout_is_refused_by_name(self):
        with self.assertRaisesRegex(ValueError, 'layout "spiral": expected one of contiguous, zigzag'):
            layout.global_indices(8, 0, 2, "spiral")

    def test_a_rank_outside_the_group_is_refused(self):
        with self.assertRaisesRegex(ValueError, "rank 2: expected 0 to 1"):
            layout.global_indices(8, 2, 2)


if __name__ == "__main__":
    unittest.main()
