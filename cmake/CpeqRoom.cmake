# cpeq_room(<name> SOURCES <file>... [LINKS <target>...])
#
# A room is a static library `cpeq_<name>`. LINKS names the rooms and the third-party targets it stands on;
# tests/rules checks that its #include lines agree with architecture.
function(cpeq_room name)
    cmake_parse_arguments(room "" "" "SOURCES;LINKS" ${ARGN})
    add_library(cpeq_${name} STATIC ${room_SOURCES})
    target_link_libraries(cpeq_${name} PUBLIC cpeq_flags ${room_LINKS})
endfunction()
