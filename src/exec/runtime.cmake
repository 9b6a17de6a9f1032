# libkilter_runtime: the executor and its C interface in one shared library that needs neither LLVM, protobuf nor
# libfmt.
file(GLOB kilter_runtime_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/base/*.cpp
     ${CMAKE_CURRENT_SOURCE_DIR}/exec/*.cpp
     ${CMAKE_CURRENT_SOURCE_DIR}/exec/kernels/*.cpp
     ${CMAKE_CURRENT_SOURCE_DIR}/exec/c_abi/*.cpp)
set(kilter_runtime_exports ${CMAKE_CURRENT_SOURCE_DIR}/exec/c_abi/exports.map)
add_library(kilter_runtime SHARED ${kilter_runtime_sources})
target_link_libraries(kilter_runtime PRIVATE kilter_options fmt::fmt-header-only Threads::Threads)
target_include_directories(kilter_runtime PUBLIC ${CMAKE_SOURCE_DIR}/include)
target_compile_definitions(kilter_runtime PRIVATE KILTER_VERSION="${PROJECT_VERSION}")
target_compile_options(kilter_runtime PRIVATE -ffunction-sections -fdata-sections)
target_link_options(kilter_runtime PRIVATE -Wl,--gc-sections -Wl,--version-script=${kilter_runtime_exports})
set_target_properties(kilter_runtime PROPERTIES
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON LINK_DEPENDS ${kilter_runtime_exports}
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
# The Python package kilter-runtime (python/runtime) carries the library under a name without a version.
install(FILES $<TARGET_FILE:kilter_runtime> DESTINATION kilter_runtime RENAME libkilter_runtime.so COMPONENT python_runtime)
