//! Timers and objects of a scheduler: in the values of maps, in trees and in lists.

use crate::bpf::check;

#[test]
fn an_update_keeps_the_timers_and_kptrs_of_an_array_and_replaces_those_of_a_hash() {
    let check_in = |kind, timer, mask| {
        check(
            &format!(
                "struct held {{ struct bpf_timer timer; struct bpf_cpumask __kptr *mask; u64 number; }} zero = {{}};
                struct {{ __uint(type, BPF_MAP_TYPE_{kind}); __uint(max_entries, 1);
                          __type(key, u32); __type(value, struct held); }} map SEC(\".maps\");
                static int expired(void *map, u32 *key, struct held *held) {{ return 0; }}"
            ),
            &format!(
                "struct held *held;
                struct bpf_cpumask *mask;
                key = 0;
                bpf_map_update_elem(&map, &key, &zero, BPF_ANY);
                held = bpf_map_lookup_elem(&map, &key);
                CHECK(held && !bpf_timer_init(&held->timer, &map, CLOCK_MONOTONIC));
                CHECK(!bpf_timer_set_callback(&held->timer, expired));
                CHECK(!bpf_timer_start(&held->timer, 1000000, 0));
                mask = bpf_cpumask_create();
                CHECK(mask && !bpf_kptr_xchg(&held->mask, mask));
                zero.number = 5;
                CHECK(!bpf_map_update_elem(&map, &key, &zero, BPF_ANY));
                CHECK(!bpf_map_update_elem(&map, &key, held, BPF_ANY));
                held = bpf_map_lookup_elem(&map, &key);
                CHECK(held && held->number == 5 && !!held->mask == {mask});
                CHECK(bpf_timer_cancel(&held->timer) == {timer});"
            ),
        )
    };
    check_in("ARRAY", 1, 1);
    check_in("HASH", -22, 0);
}

#[test]
fn a_node_is_in_one_tree_or_list_at_a_time() {
    check(
        "struct node { u64 number; struct bpf_list_node item; struct bpf_rb_node branch; struct bpf_refcount refs; };
        private(A) struct bpf_spin_lock lock;
        private(A) struct bpf_list_head list __contains(node, item);
        private(A) struct bpf_rb_root tree __contains(node, branch);
        static bool less(struct bpf_rb_node *a, const struct bpf_rb_node *b) { return false; }",
        "struct node *node = bpf_obj_new(typeof(*node));
        struct bpf_list_node *item;
        struct bpf_rb_node *branch;
        CHECK(node);
        bpf_spin_lock(&lock);
        CHECK(bpf_rbtree_add(&tree, &bpf_refcount_acquire(node)->branch, less) == 0);
        CHECK(bpf_rbtree_add(&tree, &bpf_refcount_acquire(node)->branch, less) == -EINVAL);
        CHECK(bpf_list_push_back(&list, &bpf_refcount_acquire(node)->item) == 0);
        CHECK(bpf_list_push_front(&list, &node->item) == -EINVAL);
        item = bpf_list_pop_back(&list);
        branch = bpf_rbtree_remove(&tree, bpf_rbtree_first(&tree));
        CHECK(item && branch && !bpf_list_pop_front(&list) && !bpf_rbtree_first(&tree));
        CHECK(bpf_list_push_front(&list, item) == 0 && (item = bpf_list_pop_front(&list)));
        bpf_spin_unlock(&lock);
        bpf_obj_drop(container_of(item, struct node, item));
        bpf_obj_drop(container_of(branch, struct node, branch));",
    );
}
