# Precompiled headers, because half of the time to compile a file goes into reading the same headers again. Sources
# still include what they use; a build with -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON shows where one does not. Each file
# reads the whole precompiled header, at about 15 ms per MB, so a header that few files include, such as
# <nlohmann/json.hpp>, would cost more than it saves.
set(KILTER_COMMON_HEADERS <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits> <map>
    <memory> <numeric> <optional> <set> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector>)

# kilter_precompile(TARGET HEADER...): precompiles headers for the target. kilter_precompile(TARGET REUSE OTHER): uses
# those of OTHER, which must be compiled in the same way. Headers of this project are refused: GCC recognises a file
# with `#pragma once` by its text, but ccache returns a precompiled header whose files have changed only in comments, so
# the compiler would read such a file twice.
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
  # ccache works with a precompiled header only if the compiler is called like this. With -fpch-deps as well, GCC 12
  # crashes in ccache's preprocessor run and nothing is cached.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  else()
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()
