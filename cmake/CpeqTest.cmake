# The test ladder: cpeq_test() and cpeq_script_test().
