# One interface target carries the language, the warnings and the sanitizers of every room.

add_library(cpeq_flags INTERFACE)
target_compile_features(cpeq_flags INTERFACE c_std_11)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

target_compile_definitions(cpeq_flags INTERFACE _POSIX_C_SOURCE=200809L CPEQ_VERSION="${PROJECT_VERSION}")
target_include_directories(cpeq_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(cpeq_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
    -Wwrite-strings -Wundef
    -Wno-unknown-pragmas # OpenMP's without it, GCC's where another compiler is
    -ffp-contract=off) # a fused product changes a sum's rounding from one compiler to the next
if(CPEQ_WERROR)
    target_compile_options(cpeq_flags INTERFACE -Werror)
endif()
if(CPEQ_SANITIZE)
    target_compile_options(cpeq_flags INTERFACE -fsanitize=${CPEQ_SANITIZE} -fno-omit-frame-pointer
        -fno-sanitize-recover=all)
    target_link_options(cpeq_flags INTERFACE -fsanitize=${CPEQ_SANITIZE})
endif()
target_link_libraries(cpeq_flags INTERFACE m)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
