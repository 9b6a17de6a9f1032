# kilter_library(NAME FOLDERS folder... LINKS library...): defines a library of all *.cpp in these folders, without
# subfolders. scripts/check_order.py checks the includes of these folders against the links.
add_library(kilter_options INTERFACE)
target_compile_options(kilter_options INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion $<$<BOOL:${KILTER_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports these where they cannot occur (its value ranges break on inlined std::string and std::array code).
  target_compile_options(kilter_options INTERFACE -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-maybe-uninitialized)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
target_include_directories(kilter_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)

set(KILTER_SANITIZE "" CACHE STRING "Sanitizers for every target, e.g. address,undefined or thread")
if(KILTER_SANITIZE)
  add_compile_options(-fsanitize=${KILTER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KILTER_SANITIZE})
  # Clang's check of indirect calls reads data that it puts before each function. Kernels start at the beginning of a
  # mapping, so nothing precedes them.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_compile_options(-fno-sanitize=function)
  endif()
endif()

option(KILTER_FUZZ "Build the libFuzzer targets of tests/fuzz, and all else with their instrumentation (clang only)" OFF)
if(KILTER_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "KILTER_FUZZ needs clang, got ${CMAKE_CXX_COMPILER_ID}; configure with -DCMAKE_CXX_COMPILER=clang++-19")
  endif()
  # The sorting functions of libstdc++ 12 use functions that it declares deprecated, and clang reports these uses.
  add_compile_options(-fsanitize=fuzzer-no-link -Wno-deprecated-declarations)
endif()

find_program(KILTER_CCACHE ccache)
if(KILTER_CCACHE)
  # ccache needs this to work with precompiled headers, and to recognise files of another checkout.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${KILTER_CCACHE})
endif()

function(kilter_library name)
  cmake_parse_arguments(arg "" "" "FOLDERS;LINKS" ${ARGN})
  set(sources "")
  foreach(folder ${arg_FOLDERS})
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
    if(NOT found)
      message(FATAL_ERROR "${folder} has no sources")
    endif()
    list(APPEND sources ${found})
  endforeach()
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC ${arg_LINKS} PRIVATE kilter_options)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  if(name STREQUAL "kilter_base")
    kilter_precompile(kilter_base ${KILTER_COMMON_HEADERS} <fmt/format.h> <fmt/ranges.h>)
  else()
    kilter_precompile(${name} REUSE kilter_base)
  endif()
endfunction()
