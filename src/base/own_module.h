/* Whether all code of the module that contains this library is acre's. */
#ifndef ACRE_BASE_OWN_MODULE_H
#define ACRE_BASE_OWN_MODULE_H

/* Its address is NULL in code that comes from libacre.a. */
extern const char acre__own_module __attribute__((weak, visibility("hidden")));

#endif
