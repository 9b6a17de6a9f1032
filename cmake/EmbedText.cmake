# kilter_embed_text(TARGET VARIABLE FILE...): compiles the concatenated text of the files into TARGET, as `extern const
# std::string_view VARIABLE` in namespace kilter::embedded. Files are read at build time; changing one triggers a
# rebuild.
function(kilter_embed_text target variable)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/embedded/${variable}.cpp)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} "-DIN=${sources}" -DOUT=${out} -DVARIABLE=${variable} -P ${PROJECT_SOURCE_DIR}/cmake/embed_text_script.cmake
    DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/cmake/embed_text_script.cmake VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
