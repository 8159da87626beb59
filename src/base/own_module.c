/* Linked into shared libraries of acre only, whose code is all acre's own. Code of libacre.a is
 * part of a program or of a program's library: there acre's code cannot be told by its addresses.
 */
#include "base/own_module.h"

const char acre__own_module = 1;
