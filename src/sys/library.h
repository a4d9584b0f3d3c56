/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of libraries that are opened at run time: the files of this directory that open one
 * call it. @function is the address of a function pointer, which ISO C does not convert to void *.
 * False: the library has no such function, and the pointer is NULL.
 */
#ifndef ORI_SYS_LIBRARY_H
#define ORI_SYS_LIBRARY_H

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* The newest version, which is the one of today's headers. */
static inline bool ori_library_find(void *library, const char *name, void *function)
{
	void *symbol = dlsym(library, name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol != NULL;
}

/* One version: functions of the same name and another one may take other structs. */
static inline bool ori_library_find_version(void *library, const char *name, const char *version,
					    void *function)
{
	void *symbol = dlvsym(library, name, version);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol != NULL;
}

struct ori_library_call {
	const char *name;
	void *function;
	bool is_needed;
};

/* The library stays open. One that lacks a needed function counts as missing. */
static inline bool ori_library_load(const char *soname, const struct ori_library_call *calls,
				    size_t count)
{
	void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);

	for (size_t i = 0; library && i < count; i++)
		if (!ori_library_find(library, calls[i].name, calls[i].function) &&
		    calls[i].is_needed)
			return false;
	return library != NULL;
}

#endif
