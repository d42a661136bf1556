# Reads borders.txt, then sources: each #include must be allowed there.

function begins(text, prefix) {
    return substr(text, 1, length(prefix)) == prefix
}

# `target` is the file itself, a file in the folder `place` (which ends in '/'), or the file `place`.
function within(target, place) {
    return target == place || begins(target, place ~ /\.[chd][a-z]*$/ || place ~ /\/$/ ? place : place "/")
}

function allowed(target, places, place, count, i) {
    count = split(places, place, " ")
    for (i = 1; i <= count; i++)
        if (within(target, place[i]))
            return 1
    return 0
}

function room_of(file, name) {
    for (name in rooms)
        if (within(file, name))
            return name
    return ""
}

function exists(path, line, found) {
    found = (getline line < path) >= 0
    close(path)
    return found
}

function rest(from, text, i) {
    text = ""
    for (i = from; i <= NF; i++)
        text = text " " $i
    return text
}

function complain(sentence) {
    print FILENAME ":" FNR ": " sentence
}

FILENAME == ARGV[1] {
    if ($1 == "room")
        rooms[$2] = $2 rest(3)
    else if ($1 == "only")
        only[$2] = rest(3)
    else if ($1 == "library")
        library[$2] = rest(3)
    else if ($1 == "system")
        for (i = 2; i <= NF; i++)
            of_system[$i] = 1
    next
}

FNR == 1 {
    room = room_of(FILENAME)
    if (room == "")
        complain("stands in no room of borders.txt")
}

!/^[ \t]*#[ \t]*include/ || room == "" {
    next
}

/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\"")
    target = part[2]
    if (!exists(target))
        complain("\"" target "\" is no file seen from the root")
    else if (!allowed(target, rooms[room]))
        complain(room " may not include \"" target "\"")
    else if ((target in only) && !allowed(FILENAME, only[target]))
        complain("\"" target "\" is for" only[target] " only")
    next
}

/^[ \t]*#[ \t]*include[ \t]*</ {
    split($0, part, /[<>]/)
    target = part[2]
    if (target in of_system)
        next
    if (!(target in library))
        complain("<" target "> is no header of borders.txt")
    else if (!allowed(FILENAME, library[target]))
        complain("<" target "> is for" library[target] " only")
    next
}

{
    complain("an #include that names no file")
}
