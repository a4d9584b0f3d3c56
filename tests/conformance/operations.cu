/* SPDX-License-Identifier: Apache-2.0 */
/* The definitions of the functions that operations.h declares; the cases link them. */
#define OPERATIONS_ARE_MADE_HERE
#include "operations.h"

template <class tag> struct body;

#define BODY(name)                                                            \
	template <> struct body<struct tag_##name> {                          \
		template <class... arguments>                                 \
		static __device__ __forceinline__ auto on(arguments... given) \
		{                                                             \
			return name(given...);                                \
		}                                                             \
	};
OPERATIONS(BODY)

template <class tag, class result, class... arguments>
__device__ result apart<tag, result(arguments...)>::on(arguments... given)
{
	return body<tag>::on(given...);
}

#define INSTANCE(name) template struct apart<struct tag_##name, decltype(name)>;
OPERATIONS(INSTANCE)
