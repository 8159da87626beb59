# Writes a C file OUT with the bytes of IN in an array called NAME. The assembler includes the file
# directly: as a list of numbers, a megabyte takes a compiler ten seconds. Aligned to 16 because the
# driver reads a fat binary in words.
file(WRITE ${OUT} "__asm__(\".section .rodata\\n\"
        \".globl ${NAME}, ${NAME}_bytes\\n\"
        \".balign 16\\n\"
        \"${NAME}: .incbin \\\"${IN}\\\"\\n\"
        \"${NAME}_end:\\n\"
        \".balign 8\\n\"
        \"${NAME}_bytes: .quad ${NAME}_end - ${NAME}\\n\"
        \".previous\\n\");
")
