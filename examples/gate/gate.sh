#!/usr/bin/env bash
# Runs step.py on two ranks, and judges what came out.
#
#   gate.sh CPEQ [OPTION...]      options are those of `cpeq gate`, as --html report.html
#
# Needs torch, and the Python package of adapters/python; ends with the status of `cpeq gate`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cpeq=$(realpath "$1")
shift

rm -rf "$here/out" # a dump of another run must not pass for one of this
torchrun --standalone --nproc-per-node 2 "$here/step.py" "$here/out" \
    "$here"/../../fixtures/golden/{llama_h24,llama_kv4}/*.h5
"$cpeq" gate "$here/suite.json" "$@"
