# Compiler settings of every target, and the two functions that declare targets. A library per second-level folder:
# runtime/base is the target troupe_base, alias troupe::base.
include(GNUInstallDirs)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

find_program(TROUPE_CCACHE ccache)
if(TROUPE_CCACHE)
  # what ccache must overlook to keep precompiled headers usable
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${TROUPE_CCACHE})
endif()

if(TROUPE_UNITY)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 10)
endif()

# No build type of CMake's own: a mode says everything. Checks stay on in release (runtime/base/check.h).
set(CMAKE_BUILD_TYPE "" CACHE STRING "" FORCE)
set(TROUPE_FLAGS_release -O2 -g1)
set(TROUPE_FLAGS_debug -O0 -g)
set(TROUPE_FLAGS_asan -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined)
set(TROUPE_FLAGS_tsan -O1 -g1 -fno-omit-frame-pointer -fsanitize=thread)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  foreach(mode asan tsan)
    list(APPEND TROUPE_FLAGS_${mode} -fsanitize-ignorelist=${CMAKE_CURRENT_LIST_DIR}/sanitizer_ignore.txt)
  endforeach()
endif()
if(NOT DEFINED TROUPE_FLAGS_${TROUPE_MODE})
  message(FATAL_ERROR "TROUPE_MODE=${TROUPE_MODE}: must be one of release, debug, asan, tsan")
endif()
# A test's own code need not be fast, and its build should be.
set(TROUPE_TEST_FLAGS ${TROUPE_FLAGS_${TROUPE_MODE}})
list(TRANSFORM TROUPE_TEST_FLAGS REPLACE "^-O1$" "-O0")
list(TRANSFORM TROUPE_TEST_FLAGS REPLACE "^-O2$" "-O1")

# troupe_options_target(NAME FLAG ...): what our own code is compiled with, beside FLAGs. -fPIC for libraries and programs alike, so
# that they can share a precompiled header.
function(troupe_options_target name)
  add_library(${name} INTERFACE)
  target_compile_options(${name} INTERFACE ${ARGN} -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/= -fPIC -Wall -Wextra -Wshadow -Wconversion -Werror
    -Wno-missing-field-initializers)  # designated initializers leave the rest at its default on purpose
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # false positives of g++ 12 in inlined standard library code; and what ccache needs to see through a precompiled header
    target_compile_options(${name} INTERFACE -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds
      -fpch-preprocess)
  endif()
  if(TROUPE_UNITY)  # a source that is included still knows its own anonymous namespace
    target_compile_options(${name} INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
  target_link_options(${name} INTERFACE ${ARGN})
endfunction()
troupe_options_target(troupe_options ${TROUPE_FLAGS_${TROUPE_MODE}})
troupe_options_target(troupe_test_options ${TROUPE_TEST_FLAGS})

find_package(Threads REQUIRED)
find_package(absl REQUIRED)

# The two precompiled headers: parsing the standard library, Abseil and GoogleTest is most of a small file's compile time.
add_library(troupe_library_pch OBJECT ${CMAKE_CURRENT_LIST_DIR}/pch/pch.cc)
target_link_libraries(troupe_library_pch PRIVATE troupe_options absl::status absl::statusor absl::strings absl::str_format Threads::Threads)
target_precompile_headers(troupe_library_pch PRIVATE ${CMAKE_CURRENT_LIST_DIR}/pch/library.h)
if(TROUPE_TESTS)
  find_package(GTest REQUIRED)
  add_library(troupe_test_pch OBJECT ${CMAKE_CURRENT_LIST_DIR}/pch/pch.cc)
  target_include_directories(troupe_test_pch PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(troupe_test_pch PRIVATE troupe_test_options absl::status absl::statusor absl::strings absl::str_format Threads::Threads
    GTest::gtest GTest::gmock)
  target_precompile_headers(troupe_test_pch PRIVATE ${CMAKE_CURRENT_LIST_DIR}/pch/test.h)
endif()

# troupe_library(base SOURCES a.cc DEPS troupe::x absl::status PRIVATE_DEPS y)
function(troupe_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  if(ARG_SOURCES)
    add_library(troupe_${name} STATIC ${ARG_SOURCES})
    target_include_directories(troupe_${name} PUBLIC
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/troupe>)
    target_link_libraries(troupe_${name} PUBLIC ${ARG_DEPS} PRIVATE $<BUILD_INTERFACE:troupe_options> ${ARG_PRIVATE_DEPS})
    target_compile_features(troupe_${name} PUBLIC cxx_std_20)
    target_precompile_headers(troupe_${name} REUSE_FROM troupe_library_pch)
  else()
    add_library(troupe_${name} INTERFACE)
    target_include_directories(troupe_${name} INTERFACE
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/troupe>)
    target_link_libraries(troupe_${name} INTERFACE ${ARG_DEPS})
  endif()
  set_target_properties(troupe_${name} PROPERTIES EXPORT_NAME ${name})
  add_library(troupe::${name} ALIAS troupe_${name})
  set_property(GLOBAL APPEND PROPERTY TROUPE_LIBRARIES troupe_${name})
endfunction()

# troupe_test(unit_base KIND unit SOURCES a_test.cc DEPS troupe::base): one GoogleTest binary, label = kind.
function(troupe_test name)
  cmake_parse_arguments(ARG "" "KIND;TIMEOUT" "SOURCES;DEPS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  if(ARG_KIND STREQUAL "bench")  # measures itself too
    target_link_libraries(${name} PRIVATE troupe_options)
  else()
    target_link_libraries(${name} PRIVATE troupe_test_options)
    target_precompile_headers(${name} REUSE_FROM troupe_test_pch)
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gmock troupe_test_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_KIND} TIMEOUT ${ARG_TIMEOUT})
  if(ARG_KIND STREQUAL "fault" OR ARG_KIND STREQUAL "bench")
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
  if(NOT TARGET tests_${ARG_KIND})
    add_custom_target(tests_${ARG_KIND})
  endif()
  add_dependencies(tests_${ARG_KIND} ${name})
endfunction()
