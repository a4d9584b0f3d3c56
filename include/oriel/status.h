/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status codes, which every call returns; error texts; and the library's version, log and
 * settings. All other headers include it.
 */
#ifndef ORIEL_STATUS_H
#define ORIEL_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ORIEL_VERSION_MAJOR 0
#define ORIEL_VERSION_MINOR 1
#define ORIEL_VERSION_PATCH 0

/*
 * 0 is success, failures are negative, "not yet" is positive. A function
 * writes its outputs only when it returns ORIEL_OK, unless it says otherwise.
 */
enum oriel_status {
	ORIEL_OK = 0,
	ORIEL_AGAIN = 1,             /* not yet: call again */
	ORIEL_ERR_INVALID = -1,      /* an argument makes no sense */
	ORIEL_ERR_RANGE = -2,        /* a rank, id, offset or length beyond its limit */
	ORIEL_ERR_STATE = -3,        /* right call, wrong moment */
	ORIEL_ERR_NOMEM = -4,        /* memory or descriptors are used up */
	ORIEL_ERR_TIMEOUT = -5,      /* a deadline passed */
	ORIEL_ERR_PEER = -6,         /* another rank has left or died */
	ORIEL_ERR_ABORTED = -7,      /* some rank called oriel_comm_abort() */
	ORIEL_ERR_MISMATCH = -8,     /* the ranks disagree about a parameter */
	ORIEL_ERR_NO_PATH = -9,      /* no path to a peer */
	ORIEL_ERR_UNSUPPORTED = -10, /* not possible on this machine or build */
	ORIEL_ERR_CONFIG = -11,      /* a setting (environment) is unknown or wrong */
	ORIEL_ERR_AUTH = -12,        /* the other end is of another job, or bytes were altered */
	ORIEL_ERR_PROTOCOL = -13,    /* bytes from a peer make no sense */
	ORIEL_ERR_VERSION = -14,     /* a rank, or the program, is built with another version */
	ORIEL_ERR_SYSTEM = -15,      /* the operating system rejected the call */
	ORIEL_ERR_ACCESS = -16, /* memory may not be used so: own or a peer's; its key, bounds */
	ORIEL_ERR_FORKED = -17, /* the handle is of the process that forked this one */
};

/*
 * Handles are pointers to objects of the library. A host function checks each handle that it is
 * given before it uses it: for NULL it returns ORIEL_ERR_INVALID; for a handle that was
 * destroyed, one of another kind, or an address that is no handle at all, ORIEL_ERR_STATE, with
 * a text that names the function and the reason; in the child of fork(), for a handle that its
 * parent had before, ORIEL_ERR_FORKED (docs/threads.md). A function that returns no status
 * returns the value named at it, and the status is behind oriel_last_status(). The address of a
 * destroyed handle serves a new object only after 1024 others of its kind were destroyed. The
 * caller ensures that no other thread still uses a handle while it is destroyed.
 *
 * Functions that end an object (destroy, close, unregister, free, release) return ORIEL_OK once it
 * is no more, also where peers or the communicator have failed, and for NULL. With any other status
 * they have done nothing: ORIEL_ERR_STATE: it still has children, belongs to another object, or
 * is no live handle; ORIEL_ERR_INVALID: memory that is no live allocation; ORIEL_ERR_FORKED: it
 * is the parent process's. The log says so at level warn, since callers may not look.
 */

/*
 * Timeouts are in nanoseconds, those of settings in seconds. With the default, that of the
 * communicator (ORIEL_TIMEOUT, 600 s unless set), a wait that takes longer breaks the communicator.
 * With a limit of its own it only returns ORIEL_ERR_TIMEOUT. The waits of windows in a stream
 * (oriel_window_X_on_stream()) are an exception: their calls have returned before, so any limit
 * that passes breaks the communicator.
 *
 * These only return ORIEL_ERR_TIMEOUT when the default has passed: oriel_comm_post() and
 * oriel_comm_post_on_stream(), where no job ends; oriel_p2p_wait(), oriel_p2p_drain() and
 * oriel_dev_copy_group_next(); and after half of it at most oriel_comm_grow() and
 * oriel_comm_merge(), which wait for each other, a part of oriel_comm_split() that does not meet,
 * and a call that maps memory of a window late (oriel_window_create()).
 */
#define ORIEL_TIMEOUT_DEFAULT 0u
#define ORIEL_TIMEOUT_INFINITE UINT64_MAX /* waits for ever */

/* "ORIEL_ERR_TIMEOUT"; "unknown status" for a number that is none. Never NULL. */
const char *oriel_status_name(enum oriel_status status);

/* One English sentence for @status, without the particulars of a failure. */
const char *oriel_status_text(enum oriel_status status);

/*
 * The particulars of the last failure on the calling thread, of a host call, or of a device
 * function on the CPU that rejected its arguments or waited up to its limit: the operation, object
 * and rank, and the limit. Empty if none has failed yet. Valid until the next call on this thread
 * that fails, or oriel_window_fault(). ORIEL_OK and ORIEL_AGAIN do not clear it, so ask after a
 * failure alone. oriel_last_status() is the status it belongs to.
 */
const char *oriel_last_error(void);

/*
 * Set the last error of the calling thread to @text, and return @status: for code above the library
 * that reports failures as it does, such as bootstraps of callers. The log has it as any failure of
 * a call. A @status that is no failure becomes ORIEL_ERR_INVALID; @text NULL is "".
 */
enum oriel_status oriel_error_set(enum oriel_status status, const char *text);
enum oriel_status oriel_last_status(void);

/* "0.1.0 (commit 1234567)" of the library that is loaded. */
const char *oriel_version(void);

/*
 * The log. Records go to standard error, or to the file that ORIEL_LOG_FILE
 * names, one line each, from ORIEL_LOG (error, warn, info, debug) up; a sink
 * set here gets them instead, without level and time. docs/logging.md has the
 * lines. @message is borrowed for the call. The sink may be called from any
 * thread, from several at once, and must not call the library.
 */
enum oriel_log_level {
	ORIEL_LOG_ERROR,
	ORIEL_LOG_WARN,
	ORIEL_LOG_INFO,
	ORIEL_LOG_DEBUG,
};

typedef void oriel_log_sink(void *context, enum oriel_log_level level, const char *message);

/* NULL gives the log back to standard error or the file. */
void oriel_log_set_sink(oriel_log_sink *sink, void *context);

/*
 * One setting of the library. Settings come from the environment and are read
 * when a bootstrap or communicator is made; an unknown ORIEL_ name or a value
 * that does not parse makes that call fail with ORIEL_ERR_CONFIG.
 */
struct oriel_setting {
	size_t size;        /* of this struct, as the caller knew it */
	const char *name;   /* "ORIEL_TIMEOUT" */
	const char *value;  /* as text, the default if unset */
	const char *source; /* "environment" or "default" */
	const char *help;   /* one line, unit included */
};

/*
 * Setting @index, counted from 0, as the environment has it now;
 * ORIEL_ERR_RANGE past the last. The strings live until the next call on
 * the same thread.
 */
enum oriel_status oriel_setting_get(unsigned index, struct oriel_setting *setting);

/* Names the first unknown or malformed ORIEL_ setting of the environment. */
enum oriel_status oriel_settings_check(void);

#ifdef __cplusplus
}
#endif

#endif
