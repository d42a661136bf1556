#!/usr/bin/env bash
# forms: text, Markdown, JSON, JUnit and the page say the same of real results, and JSON fits its schema.
. "$(dirname "$0")/support.sh"

fixture=$golden/llama/full7.h5
schema=$root/docs/report.schema.json
fits() { perl "$root/tests/cli/schema.pl" "$schema" "$@"; }

# judged STATUS VERDICT JUNIT ARGUMENTS...: `diff` in all forms; JUNIT is the element of what is not the same, or ''.
judged() {
    local status=$1 verdict=$2 element=$3
    shift 3
    rm -f r.md r.xml r.html
    expect "$status" "${verdict^^}  " cpeq diff "$@" --markdown r.md --junit r.xml --html r.html
    check "Markdown: $verdict" grep -q "^### .* $verdict: " r.md
    check "JUnit: $verdict" [ "$(grep -oE '<(failure|error)' r.xml | sort -u | tr -d '<\n')" = "$element" ]
    expect "$status" "\"verdict\": \"$verdict\"" cpeq diff "$@" --json
    cp "$work/.out" r.json
    check "the page: $verdict" grep -q "\"kind\": \"diff\",\"verdict\": \"$verdict\",\"exit_status\": $status," r.html
    check 'JSON fits the schema' fits r.json
    check 'the page fits the schema' fits r.html
}

judged 0 same '' "$fixture" "$dumps/whole.h5"
judged 0 same '' "$fixture" "$dumps/ranks"
check 'ranks are told' grep -q '"ranks": 2' r.json
judged 0 same '' "$dumps/whole.h5" "$dumps/ranks"
judged 0 same '' "$fixture" "$dumps/whole.h5" --rtol 1e-6 --atol 1e-6
judged 1 different failure "$fixture" "$dumps/label_shift.h5"
judged 1 different failure "$fixture" "$dumps/label_shift.h5" --only 'grads/*'
judged 2 'not comparable' error "$fixture" "$dumps/ranks/rank-0000.h5"
judged 2 'not comparable' error "$fixture" "$dumps/whole.h5" --only 'nothing'

if cpeq help verify >/dev/null 2>&1; then
    expect 1 '1 different, 1 refused' cpeq verify "$golden/llama/packed7.h5" --cp 2,3 --fault label_shift=twice --html r.html
    check 'the page fits the schema' fits r.html
    expect 1 '"kind": "verify"' cpeq verify "$golden/llama/packed7.h5" --cp 2,3 --fault label_shift=twice --json
    cp "$work/.out" r.json
    check 'JSON fits the schema' fits r.json
fi

# The schema refuses what is wrong.
expect 1 '' cpeq diff "$fixture" "$dumps/label_shift.h5" --json
cp "$work/.out" r.json
spoiled() {
    sed "$1" r.json >spoiled.json
    check "spoiled by $1" bash -c '! cmp -s r.json spoiled.json'
    check "refused: $1" bash -c '! perl "$1" "$2" spoiled.json >refused' - "$root/tests/cli/schema.pl" "$schema"
}
spoiled 's/"schema_version": 1/"schema_version": 2/'
spoiled '0,/"verdict": "different"/s//"verdict": "other"/'
spoiled 's/"judged": [0-9]*/"judged": 0.5/'
spoiled 's/"judged": [0-9]*/"judged": -1/'
spoiled 's/"factor": .*,/"factor": null,/'
spoiled 's/"next":/"nxt":/'
spoiled 's/"limits":/"stranger": 1, "limits":/'
finish
