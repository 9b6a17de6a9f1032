/* Tests that the header is valid C: this file is compiled as C and calls one of its functions. */
#include <kilter/runtime.h>

int c_header_input_count(const kilter_program* program) { return (int)kilter_program_input_count(program); }
