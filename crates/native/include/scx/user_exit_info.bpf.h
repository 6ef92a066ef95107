/* SPDX-License-Identifier: GPL-2.0-only */
/* The name of this header in newer kernel trees. */
#ifndef __USER_EXIT_INFO_BPF_H
#define __USER_EXIT_INFO_BPF_H

#include "user_exit_info.h"

#endif /* __USER_EXIT_INFO_BPF_H */
