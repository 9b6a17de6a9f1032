/* The header is C: this file is compiled as C and calls through it. */
#include <kilter/runtime.h>

int c_header_input_count(const kilter_program* program) { return (int)kilter_program_input_count(program); }
