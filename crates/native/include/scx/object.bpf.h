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

/*
 * Both kinds of node begin with the address of the next node, both kinds of head with that of the first. The second
 * word of a node is the tree or the list that has the node.
 */
struct __equipoise_link {
	struct __equipoise_link *next;
	void *owner;
};

/* Inserts @link after @at. For a node that has an owner already, the reference is dropped. */
static inline int __equipoise_insert(void *head, struct __equipoise_link *at, struct __equipoise_link *link)
{
	__equipoise_give(link);
	if (link->owner) {
		__kcall(free, link);
		return -22; /* EINVAL */
	}
	*link = (struct __equipoise_link){ at->next, head };
	at->next = link;
	return 0;
}

/* Removes the node after @at, if there is one. */
static inline void *__equipoise_unlink(struct __equipoise_link *at)
{
	struct __equipoise_link *link = at->next;

	if (link) {
		at->next = link->next;
		*link = (struct __equipoise_link){};
	}
	return __equipoise_take(link);
}

static inline int __equipoise_rbtree_add(void *root, void *node,
					 bool (*less)(struct bpf_rb_node *, const struct bpf_rb_node *))
{
	struct __equipoise_link *at = root;

	while (at->next && !less(node, (const struct bpf_rb_node *)at->next))
		at = at->next;
	return __equipoise_insert(root, at, node);
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
	return __equipoise_unlink(at);
}

static inline int bpf_list_push_front(struct bpf_list_head *head, struct bpf_list_node *node)
{
	return __equipoise_insert(head, (void *)head, (void *)node);
}

static inline int bpf_list_push_back(struct bpf_list_head *head, struct bpf_list_node *node)
{
	struct __equipoise_link *at = (void *)head;

	while (at->next)
		at = at->next;
	return __equipoise_insert(head, at, (void *)node);
}

static inline struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *head)
{
	return __equipoise_unlink((void *)head);
}

static inline struct bpf_list_node *bpf_list_pop_back(struct bpf_list_head *head)
{
	struct __equipoise_link *at = (void *)head;

	while (at->next && at->next->next)
		at = at->next;
	return __equipoise_unlink(at);
}

/*
 * The verifier gives each function a budget of rounds for its loops with can_loop and cond_break (may_goto). Here
 * there is one budget for all such loops at an instant of simulated time, which only a loop without end uses up.
 */
static inline bool __equipoise_may_loop(void)
{
	static u64 __now, __rounds;

	if (__now != __KERNEL->now) {
		__now = __KERNEL->now;
		__rounds = 0;
	}
	return __rounds++ < BPF_MAX_LOOPS;
}

#define can_loop __equipoise_may_loop()
#define __cond_break(expr)     \
	({                     \
		if (!can_loop) \
			expr;  \
	})
#define cond_break __cond_break(break)
#define cond_break_label(label) __cond_break(goto label)

#endif /* __SCX_OBJECT_BPF_H */
