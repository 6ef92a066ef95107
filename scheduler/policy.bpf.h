/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy: switches and numbers for the same code. User space sets these before it loads the scheduler, and may
 * change the tunables among them later. A preset in policies/ is a set of values. All fields are 64 bits wide, so
 * that the table alone determines the layout.
 */
#ifndef __EQUIPOISE_POLICY_H
#define __EQUIPOISE_POLICY_H

#ifndef SCHEDULER_SETTINGS
#error "SCHEDULER_SETTINGS is undefined: expected the path of the scheduler's settings.def"
#endif

#define NS(...)
#define SCALED_NS(...)
#define NUMBER(...)
#define SWITCH(name, ...) __u64 name;
#define CHOICE(name, ...) __u64 name;
#define LIVE_CHOICE(...)
#define OPTION(...)
/* REQUIRES() has no effect here, because user space checks the requirements. */
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

/* The switches and choices are constant, so the verifier drops the code that they exclude. */
const volatile struct policy policy;
/*
 * The values that may change while the scheduler runs, one word at a time. They begin a cache line, so that no
 * variable before them shares one with them.
 */
volatile struct tunables tunables __attribute__((aligned(64)));

#endif /* __EQUIPOISE_POLICY_H */
