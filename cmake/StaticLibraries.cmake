# KILTER_STATIC: replaces the shared libraries that LLVM and Kilter name with static ones. Those of operators, protobuf
# and fmt stay shared, and auditwheel copies them into the wheel under names of their own: Debian compiles
# libprotobuf-lite.a, libre2.a and libpng.a for programs, so they cannot be part of a shared library, and has no static
# fmt. Every file would compile fmt again if it were used as headers only: 5 seconds instead of 2.
add_compile_options(-ffunction-sections -fdata-sections)
find_package(SQLite3 REQUIRED)
foreach(pair ZLIB::ZLIB=libz.a zstd::libzstd_shared=libzstd.a SQLite::SQLite3=libsqlite3.a)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 target)
  list(GET pair 1 file)
  find_library(KILTER_STATIC_${file} ${file} REQUIRED)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${KILTER_STATIC_${file}}
                        IMPORTED_LOCATION_RELEASE ${KILTER_STATIC_${file}} IMPORTED_LOCATION_NONE ${KILTER_STATIC_${file}})
endforeach()
