# Writes the bytes of IN as a C array called NAME into OUT. Aligned to 16 because the driver reads a
# fat binary in words.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE ${OUT} "#include <stddef.h>
extern const unsigned char ${NAME}[];
extern const size_t ${NAME}_bytes;
_Alignas(16) const unsigned char ${NAME}[] = {
${hex}};
const size_t ${NAME}_bytes = sizeof ${NAME};
")
