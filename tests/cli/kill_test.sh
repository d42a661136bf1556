#!/usr/bin/env bash
# A rank that dies under mpirun, before, during and after the exchange: the others end within ten seconds, something says
# so, and no file is left half written. A rank that hangs is given up after CPEQ_TIMEOUT seconds.
. "$(dirname "$0")/support.sh"

cat >config.json <<'END'
{"model_type": "llama", "vocab_size": 1024, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4,
 "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16}
END
expect 0 loss cpeq make config.json --length 256 -o big.h5

# The ranks of a launch: the launcher's children, as soon as they are the program.
ranks_of() {
    local process
    for process in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
        if [ "/proc/$process/exe" -ef "$program" ]; then echo "$process"; fi
    done
}

# Whether a process is there, and is more than what its parent has not yet asked about.
alive() { [ -n "$(readlink "/proc/$1/exe" 2>/dev/null)" ]; }
none_alive() {
    local process
    for process in "$@"; do
        if alive "$process"; then return 1; fi
    done
}

milliseconds() { echo $(($(date +%s%N) / 1000000)); }

# ended PID SECONDS: whether it ends by then.
ended() {
    local deadline=$(($(milliseconds) + 1000 * $2))
    while alive "$1"; do
        if [ "$(milliseconds)" -gt $deadline ]; then return 1; fi
        sleep 0.05
    done
}

start() { # COMMAND...: on four ranks, in the background
    mpirun -n 4 "$program" "$@" >"$work/.out" 2>"$work/.err" </dev/null &
    launcher=$!
    for _ in $(seq 200); do
        mapfile -t ranks < <(ranks_of $launcher)
        if [ ${#ranks[@]} -eq 4 ]; then return 0; fi
        sleep 0.02
    done
    return 1
}

begin=$(milliseconds)
expect 0 'whole.h5' mpirun -n 4 "$program" run big.h5 --cp 4 -o whole.h5
whole=$(($(milliseconds) - begin))
echo "a run takes $whole ms"

# Sleeps for so many tenths of the time of a whole run.
sleep_tenths() { sleep "$(printf '%d.%03d' $((whole * $1 / 10000)) $((whole * $1 / 10 % 1000)))"; }

# Ends what should have ended by itself, so that the test does.
end_all() { kill -KILL "$launcher" "${ranks[@]}" 2>/dev/null; }

met=0
exchanges=(ring ulysses usp:2x2 allgather)
for tenths in 0 1 2 3 4 5 6 7; do
    target=killed$tenths.h5
    exchange=${exchanges[tenths % 4]}
    if ! start run big.h5 --cp 4 --exchange "$exchange" -o "$target"; then
        fail "four ranks did not start"
        continue
    fi
    sleep_tenths $tenths
    if ! kill -KILL "${ranks[(tenths + tenths / 4) % 4]}" 2>/dev/null; then
        wait $launcher # it was done already
        continue
    fi
    check "the others end within 10 s of a kill after $tenths tenths of $exchange" ended $launcher 10
    alive $launcher && end_all
    wait $launcher
    status=$?
    if [ $status -eq 0 ]; then continue; fi # the rank had done all its work
    met=$((met + 1))
    check "a message after $tenths tenths" [ -s "$work/.err" ]
    check "no rank is left after $tenths tenths" none_alive "${ranks[@]}"
    if [ -e "$target" ]; then expect 0 'SAME' cpeq diff whole.h5 "$target"; fi
    expect 0 "$target" mpirun -n 4 "$program" run big.h5 --cp 4 --exchange "$exchange" -o "$target"
    check "what the killed one left is swept" no_such_file "$target".*.tmp
    expect 0 'SAME' cpeq diff whole.h5 "$target"
done
check "kills that ended a run: $met, at least 4" [ $met -ge 4 ]

# A rank that stops answering, half way through many runs: until it has joined the others only the launcher could know.
mkdir many
for copy in $(seq 12); do cp big.h5 many/$copy.h5; done
begin=$(milliseconds)
expect 0 '12 same' mpirun -n 4 "$program" verify many --cp 4
whole=$(($(milliseconds) - begin))
export CPEQ_TIMEOUT=2
if start verify many --cp 4 --junit hung.xml; then
    sleep_tenths 5
    kill -STOP "${ranks[2]}"
    check 'the others give up within 10 s' ended $launcher 10
    alive $launcher && end_all
    wait $launcher
    check 'the status says so' [ $? -ne 0 ]
    check 'a message' grep -q 'has waited 2 s ' "$work/.err"
    check 'no rank is left' none_alive "${ranks[@]}"
    check 'nothing is written' no_such_file hung.xml
else
    fail 'four ranks did not start'
fi
finish
