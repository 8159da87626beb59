/* `acre top` where the tool was built without ncurses: see top_screen.h. */
#include "cli.h"
#include "top_screen.h"

int top_screen(struct top_options *options) {
    (void)options;
    cli_say("this acre was built without ncurses (Debian package libncurses-dev), so there is no "
            "live view; use 'acre top --once', or 'watch acre ps'");
    return CLI_CANNOT;
}
