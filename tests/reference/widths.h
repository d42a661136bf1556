/* The tests of the rung "widths". */
#ifndef CPEQ_TESTS_REFERENCE_WIDTHS_H
#define CPEQ_TESTS_REFERENCE_WIDTHS_H

void vector_errors_are_as_stated(void **state);
void vector_corners(void **state);
void bf16_rounds_as_base_does(void **state);
void bf16_noise_is_fair(void **state);
void noise_is_one_unit(void **state);

#endif
