/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy: switches and numbers over the one body of code. User space sets them before it loads the scheduler,
 * and the tunables among them later, too. A preset in policies/ is a set of these. All are 64 bits wide, so that
 * the table alone says how they lie.
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

/* What the scheduler is made of: code that a switch leaves out is not even verified. */
const volatile struct policy policy;
/* What may change while it runs, a word at a time. On lines of their own, which nobody else writes. */
volatile struct tunables tunables __attribute__((aligned(64)));

#endif /* __EQUIPOISE_POLICY_H */
