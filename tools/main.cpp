#include "program.h"

int main(int argc, char** argv) { return kilter::tool::program(argc, argv); }
