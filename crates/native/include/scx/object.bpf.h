/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Objects that a scheduler allocates, and the trees and lists that hold them. A tree is kept as an
 * ordered list: the schedulers that use a tree have one node per control group.
 */
#ifndef __SCX_OBJECT_BPF_H
#define __SCX_OBJECT_BPF_H

#define bpf_obj_new(type) ((type *)__equipoise_alloc(sizeof(type)))
#define bpf_obj_drop(object) __kcall(free, __equipoise_give(object))
#define bpf_refcount_acquire(object)                                \
	({                                                          \
		typeof(object) ___object = (object);                \
		__kcall(keep, (void *)__equipoise_take(___object)); \
		___object;                                          \
	})

/* Both kinds of node begin with the address of the next node, both kinds of head with that of the first. */
struct __equipoise_link {
	struct __equipoise_link *next;
};

static inline int __equipoise_rbtree_add(void *root, void *node,
					 bool (*less)(struct bpf_rb_node *, const struct bpf_rb_node *))
{
	struct __equipoise_link *at = root, *link = __equipoise_give(node);

	while (at->next && !less(node, (const struct bpf_rb_node *)at->next))
		at = at->next;
	link->next = at->next;
	at->next = link;
	return 0;
}
#define bpf_rbtree_add(root, node, less) __equipoise_rbtree_add(root, node, less)

static inline struct bpf_rb_node *bpf_rbtree_first(struct bpf_rb_root *root)
{
	return (struct bpf_rb_node *)((struct __equipoise_link *)root)->next;
}

static inline struct bpf_rb_node *bpf_rbtree_remove(struct bpf_rb_root *root, struct bpf_rb_node *node)
{
	struct __equipoise_link *at = (void *)root, *link = (void *)node;

	while (at->next && at->next != link)
		at = at->next;
	if (!at->next)
		return NULL;
	at->next = link->next;
	link->next = NULL;
	return __equipoise_take(node);
}

static inline int bpf_list_push_front(struct bpf_list_head *head, struct bpf_list_node *node)
{
	struct __equipoise_link *at = (void *)head, *link = __equipoise_give(node);

	link->next = at->next;
	at->next = link;
	return 0;
}

static inline int bpf_list_push_back(struct bpf_list_head *head, struct bpf_list_node *node)
{
	struct __equipoise_link *at = (void *)head, *link = __equipoise_give(node);

	while (at->next)
		at = at->next;
	link->next = NULL;
	at->next = link;
	return 0;
}

static inline struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *head)
{
	struct __equipoise_link *at = (void *)head, *link = at->next;

	if (link)
		at->next = link->next;
	return __equipoise_take(link);
}

static inline struct bpf_list_node *bpf_list_pop_back(struct bpf_list_head *head)
{
	struct __equipoise_link *at = (void *)head, *link;

	if (!at->next)
		return NULL;
	while (at->next->next)
		at = at->next;
	link = at->next;
	at->next = NULL;
	return __equipoise_take(link);
}

#endif /* __SCX_OBJECT_BPF_H */
