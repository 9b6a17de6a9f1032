# kilter_host_headers(NAME HEADER [DEFINITIONS...]): defines target NAME for a header-only library from the build machine.
# A cross build must not have /usr/include on its path, since the build machine's C library is there, so only the
# library's own folder is linked into the build tree.
function(kilter_host_headers name header)
  find_path(${name}_HEADERS ${header} HINTS /usr/include NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  get_filename_component(folder ${header} DIRECTORY)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/headers)
  file(CREATE_LINK ${${name}_HEADERS}/${folder} ${PROJECT_BINARY_DIR}/headers/${folder} SYMBOLIC)
  add_library(${name} INTERFACE)
  target_include_directories(${name} SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/headers)
  target_compile_definitions(${name} INTERFACE ${ARGN})
endfunction()
