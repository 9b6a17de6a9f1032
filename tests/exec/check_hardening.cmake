# usage: cmake -DFILE=program -DREADELF=... -DOBJDUMP=... -DENTRY=function -P check_hardening.cmake
# Checks that a program or library has the protections that cmake/Hardening.cmake turns on. ENTRY is a function in FILE
# that is called from outside.
function(look arguments pattern what)
  execute_process(COMMAND ${READELF} ${arguments} -W ${FILE} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  if(NOT text MATCHES "${pattern}")
    message(SEND_ERROR "${FILE} has no ${what}: readelf ${arguments} shows nothing like \"${pattern}\"")
  endif()
endfunction()
look(-h "Type: +DYN" "position-independent code")
look(-l "GNU_RELRO" "segment that is read-only after relocation")
look(-d "BIND_NOW|Flags:[^\n]* NOW" "relocation of all calls before it starts, without which the segment stays writable in part")
look(-l "GNU_STACK +0x0+ 0x0+ 0x0+ 0x0+ 0x0+ RW " "stack without execution")
look(--dyn-syms "__stack_chk_fail" "stack protector")
look(--dyn-syms "_chk(@| |$)" "fortified call")
execute_process(COMMAND ${OBJDUMP} -d --no-show-raw-insn --disassemble=${ENTRY} ${FILE} OUTPUT_VARIABLE code COMMAND_ERROR_IS_FATAL ANY)
if(NOT code MATCHES "<${ENTRY}>:[^\n]*\n[^\n]*(endbr64|paciasp|bti)")
  message(SEND_ERROR "${FILE} is without control-flow protection: ${ENTRY} does not begin with endbr64, paciasp or bti:\n${code}")
endif()
