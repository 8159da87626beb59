/* acre resume: brings the memory of a suspended program back, over its control socket. */
#include <stdlib.h>

#include "cli.h"
#include "control_ask.h"
#include "suspend_ask.h"

struct resume_args {
    bool json;
    long pid; /* 0: not given */
};

static const struct argp_option resume_options[] = {
    {"json", CLI_KEY_JSON, NULL, 0, "print JSON (schema acre-resume/1)", 0}, {0}};

static const char resume_doc[] =
    "Brings the memory of a program back that 'acre suspend' took off its devices."
    "\v"
    "The contents are copied back to the same addresses, and the program's calls\n"
    "that wait for them continue. If a device has too little free memory, the\n"
    "program stays suspended and the message has the bytes that are missing: free\n"
    "memory, and call 'acre resume' again.\n"
    "\n"
    "Examples:\n"
    "  acre suspend 4711 && ./other-program; acre resume 4711\n"
    "  acre resume --json 4711 | jq .seconds\n"
    "\n"
    "Exit status:\n"
    "  0   all memory is back\n"
    "  2   there is no such process, it does not answer, it is not suspended, or\n"
    "      its memory cannot come back now\n"
    "  64  wrong usage\n";

static error_t resume_parse(int key, char *arg, struct argp_state *state) {
    struct resume_args *args = state->input;
    switch (key) {
    case CLI_KEY_JSON:
        args->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num) {
            argp_error(state, "too many arguments");
        }
        args->pid = control_parse_pid(state, arg);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no process given");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void resume_print(const struct resume_args *args, const struct suspend_answer *answer) {
    char bytes[CLI_NUMBER_BYTES], copied[CLI_NUMBER_BYTES];
    if (args->json) {
        cli_json_end(suspend_json("acre-resume/1", args->pid, answer));
        return;
    }
    printf("process %ld resumed in %.2f s: %s of device memory, %s with their contents\n",
           args->pid, answer->seconds, cli_bytes(suspend_sum(answer, "released_bytes"), bytes),
           cli_bytes(suspend_sum(answer, "kept_bytes"), copied));
}

int cmd_resume(int argc, char **argv) {
    static const struct argp argp = {
        .options = resume_options, .parser = resume_parse, .args_doc = "PID", .doc = resume_doc};
    struct resume_args args = {0};
    struct suspend_answer answer;
    if (cli_argp_parse(&argp, argc, argv, 0, &args) != 0) {
        return CLI_USAGE;
    }
    int code = suspend_ask(args.pid, "resume", &answer) && answer.is_whole ? CLI_OK : CLI_CANNOT;
    if (code == CLI_OK && !json_array_size(answer.devices)) {
        cli_say("process %ld is not suspended", args.pid);
        code = CLI_CANNOT;
    }
    if (json_array_size(answer.devices)) {
        resume_print(&args, &answer);
    }
    json_decref(answer.devices);
    return code;
}
