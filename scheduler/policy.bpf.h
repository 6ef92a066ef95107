/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy: switches and numbers for the same code. User space sets them before it loads the
 * scheduler, and the tunables among them later, too. A preset in policies/ is a set of values. All
 * are 64 bits wide, so that the table alone determines the layout.
 */
#ifndef __EQUIPOISE_POLICY_H
#define __EQUIPOISE_POLICY_H

#ifndef SCHEDULER_SETTINGS
#error "main.bpf.c says where its scheduler's settings are, before it includes anything"
#endif

#define NS(...)
#define SCALED_NS(...)
#define NUMBER(...)
#define SWITCH(name, ...) __u64 name;
#define CHOICE(name, ...) __u64 name;
#define LIVE_CHOICE(...)
#define OPTION(...)
/* User space checks what a setting requires. */
#define REQUIRES(...)
struct policy {
#include "settings.def"
#include SCHEDULER_SETTINGS
};
#undef NS
#undef SCALED_NS
#undef NUMBER
#undef SWITCH
#undef CHOICE
#undef LIVE_CHOICE

#define NS(name, ...) __u64 name;
#define SCALED_NS(name, ...) __u64 name;
#define NUMBER(name, ...) __u64 name;
#define SWITCH(...)
#define CHOICE(...)
#define LIVE_CHOICE(name, ...) __u64 name;
struct tunables {
#include "settings.def"
#include SCHEDULER_SETTINGS
};
#undef NS
#undef SCALED_NS
#undef NUMBER
#undef LIVE_CHOICE
#undef OPTION

#define NS(...)
#define SCALED_NS(...)
#define NUMBER(...)
#define LIVE_CHOICE(...)
#define OPTION(name, value, ...) name = value,
enum policy_option {
#include "settings.def"
#include SCHEDULER_SETTINGS
};
#undef NS
#undef SCALED_NS
#undef NUMBER
#undef SWITCH
#undef CHOICE
#undef LIVE_CHOICE
#undef OPTION
#undef REQUIRES

/* The scheduler's structure: code that a switch excludes is not even verified. */
const volatile struct policy policy;
/*
 * Values that may change while it runs, one word at a time. They have cache lines of their own,
 * which nothing else writes.
 */
volatile struct tunables tunables __attribute__((aligned(64)));

#endif /* __EQUIPOISE_POLICY_H */
