/* SPDX-License-Identifier: Apache-2.0 */
/* What a service tells systemd: https://www.freedesktop.org/software/systemd/man/sd_notify.html */
#ifndef MAYFLY_NOTIFY_H
#define MAYFLY_NOTIFY_H

#include <stdint.h>

/* Lines such as "READY=1\nSTATUS=...", to the socket that NOTIFY_SOCKET names. Nothing without one. */
void notify(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How often systemd wants to hear WATCHDOG=1 from this process at the latest; 0: it does not. */
int64_t notify_watchdog_ns(void);

#endif
