# Precompiled headers: half of what a file takes to compile is reading the same headers again. Sources include what they
# use all the same; a build with -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON shows where one does not. Each file reads all of a
# precompiled header, at about 15 ms for a MB: what few files include, as <nlohmann/json.hpp>, would cost more than it brings.
set(KILTER_COMMON_HEADERS <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits> <map>
    <memory> <numeric> <optional> <set> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector>)

# kilter_precompile(TARGET HEADER...): a header of the target's own. kilter_precompile(TARGET REUSE OTHER): that of OTHER,
# which has to be compiled in the same way. Headers of this project are refused: GCC knows a file with `#pragma once` by
# its text, and ccache gives back a precompiled header whose files have changed in comments only, so that compiling reads
# such a file twice.
function(kilter_precompile target)
  if(ARGV1 STREQUAL "REUSE")
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
  else()
    foreach(header IN LISTS ARGN)
      if(NOT header MATCHES "^<.*>$")
        message(FATAL_ERROR "kilter_precompile(${target}): ${header} is not written as <...>; a precompiled header holds "
                            "headers of the system and of libraries only")
      endif()
    endforeach()
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
  # ccache works with a precompiled header only if compilers name it so. With -fpch-deps, too, GCC 12 crashes in ccache's
  # preprocessor run and nothing is cached.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  else()
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()
