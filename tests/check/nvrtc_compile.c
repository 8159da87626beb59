/* Compiles a file for a GPU with NVRTC, as CuPy and PyTorch do, without any include path but the
 * given folder:
 *
 *     nvrtc_compile FOLDER FILE ARCHITECTURE [OPTION...]
 *
 * Prints NVRTC's messages, and the number of bytes of the result. */
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *path) {
    FILE *in = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    if (!in || !text || fread(text, 1, (1 << 20) - 1, in) == 0)
        exit(2);
    fclose(in);
    return text;
}

int main(int argc, char **argv) {
    char folder[4096], target[64], log[1 << 16] = "";
    const char *options[16] = {folder, target};
    size_t bytes = 0;
    nvrtcProgram program;
    if (argc < 4 || argc > 16)
        return 2;
    snprintf(folder, sizeof folder, "-I%s", argv[1]);
    snprintf(target, sizeof target, "-arch=%s", argv[3]);
    for (int i = 4; i < argc; i++)
        options[i - 2] = argv[i];
    char *text = read_file(argv[2]);
    if (nvrtcCreateProgram(&program, text, argv[2], 0, NULL, NULL) != NVRTC_SUCCESS)
        return 2;
    nvrtcResult result = nvrtcCompileProgram(program, argc - 2, options);
    if (nvrtcGetProgramLogSize(program, &bytes) == NVRTC_SUCCESS && bytes <= sizeof log)
        (void)nvrtcGetProgramLog(program, log);
    fputs(log, stdout);
    if (result == NVRTC_SUCCESS)
        result = nvrtcGetCUBINSize(program, &bytes);
    printf("%s: %zu bytes\n", nvrtcGetErrorString(result), bytes);
    (void)nvrtcDestroyProgram(&program);
    free(text);
    return result != NVRTC_SUCCESS;
}
