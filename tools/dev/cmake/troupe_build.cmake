# Compiler settings of every target, and the two functions that declare targets. A library per second-level folder:
# runtime/base is the target troupe_base, alias troupe::base.
include(GNUInstallDirs)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

find_program(TROUPE_CCACHE ccache)
if(TROUPE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TROUPE_CCACHE})
  # precompiled headers stay usable behind ccache
  set(ENV{CCACHE_SLOPPINESS} pch_defines,time_macros)
endif()

# No build type of CMake's own: a mode says everything. Checks stay on in release (runtime/base/check.h).
set(CMAKE_BUILD_TYPE "" CACHE STRING "" FORCE)
set(TROUPE_FLAGS_release -O2 -g1)
set(TROUPE_FLAGS_debug -O0 -g)
set(TROUPE_FLAGS_asan -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined)
set(TROUPE_FLAGS_tsan -O1 -g1 -fno-omit-frame-pointer -fsanitize=thread)
if(NOT DEFINED TROUPE_FLAGS_${TROUPE_MODE})
  message(FATAL_ERROR "TROUPE_MODE=${TROUPE_MODE}: must be one of release, debug, asan, tsan")
endif()

add_library(troupe_options INTERFACE)
target_compile_options(troupe_options INTERFACE ${TROUPE_FLAGS_${TROUPE_MODE}} -Wall -Wextra -Wshadow -Wconversion -Werror
  -Wno-missing-field-initializers)  # designated initializers leave the rest at its default on purpose
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # false positives of g++ 12 in inlined standard library code
  target_compile_options(troupe_options INTERFACE -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
endif()
target_link_options(troupe_options INTERFACE ${TROUPE_FLAGS_${TROUPE_MODE}})

find_package(Threads REQUIRED)
find_package(absl REQUIRED)

# troupe_library(base SOURCES a.cc DEPS troupe::x absl::status PRIVATE_DEPS y)
function(troupe_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  if(ARG_SOURCES)
    add_library(troupe_${name} STATIC ${ARG_SOURCES})
    target_include_directories(troupe_${name} PUBLIC
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/troupe>)
    target_link_libraries(troupe_${name} PUBLIC ${ARG_DEPS} PRIVATE $<BUILD_INTERFACE:troupe_options> ${ARG_PRIVATE_DEPS})
    target_compile_features(troupe_${name} PUBLIC cxx_std_20)
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
  target_link_libraries(${name} PRIVATE troupe_options ${ARG_DEPS} GTest::gtest GTest::gmock troupe_test_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_KIND} TIMEOUT ${ARG_TIMEOUT})
  if(NOT TARGET tests_${ARG_KIND})
    add_custom_target(tests_${ARG_KIND})
  endif()
  add_dependencies(tests_${ARG_KIND} ${name})
endfunction()
