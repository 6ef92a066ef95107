/* SPDX-License-Identifier: GPL-2.0-only */
/* Where schedulers of Linux 6.17 and later include it from. */
#ifndef __USER_EXIT_INFO_BPF_H
#define __USER_EXIT_INFO_BPF_H

#include "user_exit_info.h"

#endif /* __USER_EXIT_INFO_BPF_H */
