#!/bin/bash
# links.sh ROOT: "file: sentence" for each link between the documents under ROOT that leads to no file, or to no heading;
# ends with 1 if there is any.
set -u -o pipefail
cd "$1" || exit 2

documents() {
    find . \( -name build -o -name 'build-*' -o -name .git \) -prune -o -type f -name '*.md' -print | sed 's|^\./||' | sort
}

# file, tab, target of each link, without code
links() {
    documents | xargs awk '
        FNR == 1 { code = 0 }
        /^[ \t]*```/ { code = !code; next }
        !code {
            gsub(/`[^`]*`/, "")
            while (match($0, /\]\([^) ]+\)/)) {
                print FILENAME "\t" substr($0, RSTART + 2, RLENGTH - 3)
                $0 = substr($0, RSTART + RLENGTH)
            }
        }'
}

# The anchor of each heading, as GitHub and GitLab make it.
anchors() {
    awk '/^[ \t]*```/ { code = !code; next }
         !code && /^#+ / { sub(/^#+ +/, ""); print }' "$1" |
        tr '[:upper:]' '[:lower:]' | sed -E 's/[^[:alnum:] _-]//g; s/ /-/g'
}

violations=$(
    links | while IFS=$'\t' read -r document target; do
        case $target in *://* | mailto:*) continue ;; esac
        file=${target%%#*}
        if [ -n "$file" ]; then file=$(dirname "$document")/$file; else file=$document; fi
        if [ ! -e "$file" ]; then
            echo "$document: links to $target, which is not there"
        elif [ "$target" != "${target#*#}" ] && ! anchors "$file" | grep -qxF -e "${target#*#}"; then
            echo "$document: links to $target, where there is no such heading"
        fi
    done
)
[ -z "$violations" ] && exit 0
echo "$violations"
exit 1
