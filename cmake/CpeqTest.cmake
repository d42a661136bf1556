# The test ladder.
#
#   cpeq_test(<name> RUNG <rung> SOURCES <file>... [LINKS <target>...] [ARGS <argument>...]
#             [TIMEOUT <seconds>] [LABELS <label>...])
# builds test_<name> with cmocka and tests/support, and registers it as <rung>.<name>.
#
#   cpeq_script_test(<name> RUNG <rung> COMMAND <command>... [DIRECTORY <directory>] [TIMEOUT <seconds>]
#                    [LABELS <label>...])
# registers a command that succeeds with status 0.
#
# A test is "Not Run" where any test of a lower rung has failed, so the first red line is the lowest broken thing. (To
# run a test without what it stands on: ctest -FA '.*' -R <name>.) With -DCPEQ_LADDER=OFF none waits for another, and no
# core either. A skipped test is a failed one.

option(CPEQ_LADDER "no test runs before those of the rungs below" ON)

set(CPEQ_RUNGS base files judge gradients widths attention golden transport exchanges faults command-line adapters)

pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka)
find_program(BASH_PROGRAM bash REQUIRED)

function(cpeq_test_environment out)
    set(environment
        OPENBLAS_NUM_THREADS=1
        # Open MPI, versions 4 and 5: as root in a container, and more ranks than cores
        OMPI_ALLOW_RUN_AS_ROOT=1
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
        OMPI_MCA_rmaps_base_oversubscribe=1
        OMPI_MCA_btl_vader_single_copy_mechanism=none
        PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe)
    if(CPEQ_SANITIZE)
        set(suppressions ${PROJECT_SOURCE_DIR}/tests/support)
        list(APPEND environment
            CPEQ_SANITIZED=1
            ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
            LSAN_OPTIONS=suppressions=${suppressions}/leaks.supp:print_suppressions=0
            UBSAN_OPTIONS=print_stacktrace=1
            TSAN_OPTIONS=suppressions=${suppressions}/races.supp:second_deadlock_stack=1)
    endif()
    set(${out} ${environment} PARENT_SCOPE)
endfunction()

function(cpeq_register test rung timeout labels)
    list(FIND CPEQ_RUNGS "${rung}" height)
    if(height LESS 0)
        message(FATAL_ERROR "${test}: no rung is called '${rung}'; there are ${CPEQ_RUNGS}")
    endif()
    list(SUBLIST CPEQ_RUNGS 0 ${height} lower) # a rung without tests holds nobody back
    cpeq_test_environment(environment)
    if(CPEQ_SANITIZE)
        math(EXPR timeout "5 * ${timeout}")
    endif()
    if(CPEQ_LADDER)
        set_tests_properties(${test} PROPERTIES FIXTURES_SETUP ${rung} FIXTURES_REQUIRED "${lower}")
    endif()
    set_tests_properties(${test} PROPERTIES
        TIMEOUT ${timeout}
        COST ${timeout} # the longest first, so that no core waits for them at the end
        LABELS "${rung};${labels}"
        ENVIRONMENT "${environment}"
        # as cmocka, pytest and unittest write it
        FAIL_REGULAR_EXPRESSION "\\[  SKIPPED \\];[1-9][0-9]* skipped;skipped=[1-9]")
endfunction()

function(cpeq_default variable value)
    if(NOT DEFINED ${variable})
        set(${variable} ${value} PARENT_SCOPE)
    endif()
endfunction()

function(cpeq_test name)
    cmake_parse_arguments(test "" "RUNG;TIMEOUT" "SOURCES;LINKS;ARGS;LABELS" ${ARGN})
    cpeq_default(test_TIMEOUT 120)
    add_executable(test_${name} ${test_SOURCES})
    target_link_libraries(test_${name} PRIVATE cpeq_test_support ${test_LINKS})
    add_test(NAME ${test_RUNG}.${name} COMMAND test_${name} ${test_ARGS})
    cpeq_register(${test_RUNG}.${name} "${test_RUNG}" ${test_TIMEOUT} "${test_LABELS}")
endfunction()

function(cpeq_script_test name)
    cmake_parse_arguments(test "" "RUNG;TIMEOUT;DIRECTORY" "COMMAND;LABELS" ${ARGN})
    cpeq_default(test_TIMEOUT 120)
    cpeq_default(test_DIRECTORY ${PROJECT_SOURCE_DIR})
    add_test(NAME ${test_RUNG}.${name} COMMAND ${test_COMMAND} WORKING_DIRECTORY ${test_DIRECTORY})
    cpeq_register(${test_RUNG}.${name} "${test_RUNG}" ${test_TIMEOUT} "${test_LABELS}")
endfunction()
