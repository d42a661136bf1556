# What `cmake --install` puts in place: the program, its manual pages and its completions.

include(GNUInstallDirs)
install(TARGETS cpeq RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${PROJECT_SOURCE_DIR}/harness/cli/completion.bash
        DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions RENAME cpeq)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${PROJECT_SOURCE_DIR}/LICENSE
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})

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
