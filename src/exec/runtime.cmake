# libkilter_runtime: the C interface with the executor, the machine that runs programs, and the operators with their
# reference kernels, in one shared library that needs neither LLVM, protobuf nor libfmt.
file(GLOB kilter_runtime_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/exec/c_abi/*.cpp)
# Its table of operators lacks those that need libraries besides the system's. What the table does not name is not linked.
file(GLOB kilter_runtime_operators CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/ops/*.cpp)
list(FILTER kilter_runtime_operators EXCLUDE REGEX "/(image_decoder|regex_full_match)\\.cpp$")
set(kilter_runtime_table ${CMAKE_CURRENT_BINARY_DIR}/runtime_table.cpp)
kilter_operator_table(${kilter_runtime_table} ${kilter_runtime_operators})
set(kilter_runtime_exports ${CMAKE_CURRENT_SOURCE_DIR}/exec/c_abi/exports.map)
add_library(kilter_runtime SHARED ${kilter_runtime_sources} ${kilter_runtime_table})
add_library(kilter::runtime ALIAS kilter_runtime)
target_link_libraries(kilter_runtime PRIVATE kilter_vm kilter_options)
target_include_directories(kilter_runtime PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
target_link_options(kilter_runtime PRIVATE -Wl,--as-needed -Wl,--gc-sections -Wl,--version-script=${kilter_runtime_exports})
set_target_properties(kilter_runtime PROPERTIES
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON LINK_DEPENDS ${kilter_runtime_exports}
  EXPORT_NAME runtime VERSION ${PROJECT_VERSION} SOVERSION ${KILTER_SOVERSION})
# The Python package kilter-runtime (python/runtime) carries the library under a name without a version.
install(FILES $<TARGET_FILE:kilter_runtime> DESTINATION kilter_runtime RENAME libkilter_runtime.so COMPONENT python_runtime
        EXCLUDE_FROM_ALL)
