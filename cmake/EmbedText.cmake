# kilter_embed_text(TARGET VARIABLE FILE): the text of FILE as `extern const std::string_view VARIABLE` in namespace
# kilter::embedded, compiled into TARGET. The file is read at build time; a change of it rebuilds.
function(kilter_embed_text target variable file)
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  set(out ${CMAKE_CURRENT_BINARY_DIR}/embedded/${variable}.cpp)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DIN=${source} -DOUT=${out} -DVARIABLE=${variable} -P ${CMAKE_SOURCE_DIR}/cmake/embed_text_script.cmake
    DEPENDS ${source} ${CMAKE_SOURCE_DIR}/cmake/embed_text_script.cmake VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
