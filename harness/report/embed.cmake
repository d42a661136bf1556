# cmake -DINPUT=<file> -DOUTPUT=<file.c> -DSYMBOL=<name> -DHEADER=<header> -P embed.cmake
#
# Writes a file as a C array of char that ends with a zero: single bytes, since a compiler need not take a string
# literal of more than 4095, and as character constants, since a byte above 127 may be no char otherwise.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"${HEADER}\"\n\nconst char ${SYMBOL}[] = {\n${bytes}0};\n")
