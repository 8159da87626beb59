/* Warnings for misspelt ACRE_* variables. */
#ifndef ACRE_BASE_CONFIG_NAMES_H
#define ACRE_BASE_CONFIG_NAMES_H

/* Logs a warning for each ACRE_* variable in the environment that is not in the table, with the
 * nearest name that is. ACRE_TEST_*, ACRE_BUILD and ACRE_SOURCE, which the test suite uses, get no
 * warning. A process warns about each name once. Without a log callback the function does nothing,
 * so the warning comes once a callback is set. */
void acre__config_warn_unknown(void);

#endif
