# cmake "-DIN=file;file..." -DOUT=file.cpp -DVARIABLE=name -P this: writes a source file with the texts of IN as bytes.
set(bytes "")
foreach(file ${IN})
  file(READ ${file} part HEX)
  string(APPEND bytes ${part})
endforeach()
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "#include <string_view>
namespace kilter::embedded {
static constexpr unsigned char kBytes[] = {${bytes}0};
extern const std::string_view ${VARIABLE};
const std::string_view ${VARIABLE}(reinterpret_cast<const char*>(kBytes), sizeof(kBytes) - 1);
}  // namespace kilter::embedded
")
