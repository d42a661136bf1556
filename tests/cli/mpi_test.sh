#!/usr/bin/env bash
# Under mpirun: the same results as over threads, one voice, and statuses that arrive.
. "$(dirname "$0")/support.sh"
fixture=$golden/llama/full7.h5

# What MPI itself leaks at its end has no name that a suppression could hold.
launch() {
    local ranks=$1
    shift
    ASAN_OPTIONS=detect_leaks=0 mpirun -n "$ranks" "$program" "$@"
}

expect 0 '2 runs: 2 same' launch 4 verify "$fixture" --cp 2,4
check 'one voice' [ "$(grep -c 'runs: ' "$work/.out")" -eq 1 ]
expect 0 '2 runs: 2 same' launch 2 verify "$fixture" --cp 1,2 --transport threads
check 'one voice' [ "$(grep -c 'runs: ' "$work/.out")" -eq 1 ]
expect 1 'different' launch 2 verify "$fixture" --cp 2 --fault label_shift=shard
expect 3 '--cp: 3 ranks do not divide the 4 processes of this launch' launch 4 verify "$fixture" --cp 3
expect 3 '--cp: 3 ranks do not divide the 4 processes of this launch' launch 4 run "$fixture" --cp 3 -o x.h5
expect 3 'missing.h5' launch 2 verify missing.h5
check 'one voice' [ "$(grep -c '^cpeq verify: ' "$work/.err")" -eq 1 ]
expect 3 'no such option' launch 2 verify --nonsense
check 'one voice' [ "$(grep -c '^cpeq verify: ' "$work/.err")" -eq 1 ]
expect 2 '4 heads are no multiple of 3 ranks' launch 3 verify "$fixture" --cp 3
expect 3 '4 heads are no multiple of 3 ranks' launch 3 run "$fixture" --cp 3 -o x.h5
expect 4 'there is no folder no/such' launch 2 run "$fixture" --cp 2 -o no/such/x.h5
check 'one voice' [ "$(grep -c '^cpeq run: ' "$work/.err")" -eq 1 ]

# The same bytes whatever carries them.
expect 0 'whole' launch 2 run "$fixture" --cp 2 -o mpi_whole.h5
expect 0 'whole' cpeq run "$fixture" --cp 2 -o threads_whole.h5
check 'bitwise equal' cmp mpi_whole.h5 threads_whole.h5
expect 0 'in each of 4 files' launch 4 run "$fixture" --cp 4 --per-rank -o mpi_ranks
expect 0 'in each of 4 files' cpeq run "$fixture" --cp 4 --per-rank -o threads_ranks
check 'bitwise equal' diff -r mpi_ranks threads_ranks
groups="--cp 2 --dp 2 --micro 2 --exchange ring --layout zigzag --per-rank"
# shellcheck disable=SC2086 # options are words
expect 0 'in each of 4 files' launch 4 run "$fixture" $groups -o mpi_groups
# shellcheck disable=SC2086
expect 0 'in each of 4 files' cpeq run "$fixture" $groups -o threads_groups
check 'bitwise equal' diff -r mpi_groups threads_groups
expect 0 'SAME' cpeq diff "$fixture" mpi_groups

# Commands of one process, started by a launcher all the same.
expect 0 'SAME' launch 2 diff "$fixture" mpi_whole.h5
check 'one voice' [ "$(grep -c SAME "$work/.out")" -eq 1 ]
expect 0 'label_shift' launch 2 faults -q
expect 0 'cpeq ' launch 2 --version
check 'one voice' [ "$(grep -c '^cpeq ' "$work/.out")" -eq 1 ]
finish
