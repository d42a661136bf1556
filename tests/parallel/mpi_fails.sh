#!/usr/bin/env bash
# mpi_fails.sh <status> <words> <command>...: the command ends with that status within a minute, and says the words.
set -u
status=$1 words=$2
shift 2
said=$(timeout 60 "$@" 2>&1)
ended=$?
if [ "$ended" -ne "$status" ]; then
    printf '%s\nstatus %s, expected %s\n' "$said" "$ended" "$status"
    exit 1
fi
if ! grep -q -F -- "$words" <<<"$said"; then
    printf '%s\ndoes not hold "%s"\n' "$said" "$words"
    exit 1
fi
