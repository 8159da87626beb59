# Writes the C file with the page of `acre report`:
#   cmake -DPAGE=FOLDER -DMODULES=LIST -DUPLOT=FOLDER -DOUTPUT=FILE -P page_embed.cmake
#
# Modules become one script, without their import and export words: the page is a single file, which
# browsers open without a server, and modules in one file cannot import each other. So no two modules
# may have a top-level name in common. Without UPLOT the array is empty.
cmake_minimum_required(VERSION 3.22)

set(hex "")
set(bytes 0)
if(UPLOT)
    file(READ ${PAGE}/page.html page)
    file(READ ${PAGE}/page.css style)
    file(READ ${UPLOT}/dist/uPlot.iife.min.js plots)
    file(READ ${UPLOT}/dist/uPlot.min.css plots_style)
    file(READ ${UPLOT}/LICENSE licence)
    set(script "")
    foreach(module IN LISTS MODULES)
        file(READ ${PAGE}/${module}.js text)
        string(REGEX REPLACE "(^|\n)import [^;]*;" "\\1" text "${text}")
        string(REGEX REPLACE "(^|\n)export " "\\1" text "${text}")
        string(APPEND script "// ---- ${module}.js ----\n${text}\n")
    endforeach()
    string(REPLACE "/*acre:licence*/" "/* uPlot 1.6.32\n\n${licence}*/" page "${page}")
    string(REPLACE "/*acre:style*/" "${plots_style}\n${style}" page "${page}")
    string(REPLACE "/*acre:plots*/" "${plots}" page "${page}")
    string(REPLACE "/*acre:script*/" "${script}" page "${page}")
    file(WRITE ${OUTPUT}.html "${page}")
    file(READ ${OUTPUT}.html hex HEX)
    string(LENGTH "${hex}" bytes)
    math(EXPR bytes "${bytes} / 2")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
endif()
file(WRITE ${OUTPUT} "/* Written by cmake/page_embed.cmake. */
#include \"report_page.h\"

const unsigned char report_page[] = {${hex}0};
const size_t report_page_bytes = ${bytes};
")
