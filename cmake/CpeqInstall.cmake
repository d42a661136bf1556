# What `cmake --install` puts in place: the program, its manual pages and its completions.

include(GNUInstallDirs)
install(TARGETS cpeq RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${PROJECT_SOURCE_DIR}/harness/cli/completion.bash
        DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions RENAME cpeq)

# The documents, and what they link to and name: fixtures, the adapters, the examples, in the same places as here.
foreach(file README.md CHANGELOG.md CONTRIBUTING.md LICENSE fixtures/README.md reference/README.md library/cpeq.h
             library/cpeq.f90)
    get_filename_component(folder ${file} DIRECTORY)
    install(FILES ${PROJECT_SOURCE_DIR}/${file} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()
foreach(folder docs adapters examples fixtures/golden fixtures/attention)
    get_filename_component(above ${folder} DIRECTORY)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${above}
            USE_SOURCE_PERMISSIONS
            PATTERN build EXCLUDE PATTERN __pycache__ EXCLUDE PATTERN "*.egg-info" EXCLUDE)
endforeach()

# Manual pages are made from --help, so they say what this build can do. A sanitized program is slow to ask.
find_program(HELP2MAN_PROGRAM help2man)
if(HELP2MAN_PROGRAM AND NOT CPEQ_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
    set(commands info diff gate calibrate)
    if(CPEQ_ENGINE)
        list(APPEND commands make export run verify faults)
    endif()
    set(manual ${PROJECT_BINARY_DIR}/man)
    set(ask ${HELP2MAN_PROGRAM} --no-info --section=1 --version-string=${PROJECT_VERSION} --source=cpeq)
    set(pages ${manual}/cpeq.1)
    add_custom_command(OUTPUT ${manual}/cpeq.1
        COMMAND ${CMAKE_COMMAND} -E make_directory ${manual}
        COMMAND ${ask} --name=${PROJECT_DESCRIPTION} --output=${manual}/cpeq.1 $<TARGET_FILE:cpeq>
        DEPENDS cpeq VERBATIM)
    foreach(command IN LISTS commands)
        list(APPEND pages ${manual}/cpeq-${command}.1)
        add_custom_command(OUTPUT ${manual}/cpeq-${command}.1
            COMMAND ${CMAKE_COMMAND} -E make_directory ${manual}
            COMMAND ${ask} "--name=the ${command} command of cpeq" --output=${manual}/cpeq-${command}.1
                    "$<TARGET_FILE:cpeq> ${command}"
            DEPENDS cpeq VERBATIM)
    endforeach()
    add_custom_target(cpeq_manual ALL DEPENDS ${pages})
    install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
