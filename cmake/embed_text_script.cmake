# cmake -DIN=file -DOUT=file.cpp -DVARIABLE=name -P this: a source file with the text of IN in bytes.
file(READ ${IN} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "#include <string_view>
namespace kilter::embedded {
static constexpr unsigned char kBytes[] = {${bytes}0};
extern const std::string_view ${VARIABLE};
const std::string_view ${VARIABLE}(reinterpret_cast<const char*>(kBytes), sizeof(kBytes) - 1);
}  // namespace kilter::embedded
")
