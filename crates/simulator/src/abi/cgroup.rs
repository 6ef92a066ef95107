//! Control groups: there is the root group, and every task is in it.

use crate::abi::kfuncs;
use crate::abi::layout::{Cgroup, CssSet, KernfsNode};
use std::ptr::null_mut;

/// The root control group and what points to it. Boxed: C holds its address.
pub struct Root {
    cgroup: Cgroup,
    node: KernfsNode,
    set: CssSet,
}

/// `kn->id` of the root of the default hierarchy.
const ROOT_ID: u64 = 1;

impl Root {
    pub fn new() -> Box<Root> {
        let mut root = Box::new(Root {
            cgroup: Cgroup {
                self_css: null_mut(),
                kn: null_mut(),
                level: 0,
                storage: Default::default(),
            },
            node: KernfsNode { id: ROOT_ID },
            set: CssSet {
                dfl_cgrp: null_mut(),
            },
        });
        root.cgroup.self_css = &raw mut root.cgroup;
        root.cgroup.kn = &raw mut root.node;
        root.set.dfl_cgrp = &raw mut root.cgroup;
        root
    }

    pub fn cgroup(&mut self) -> *mut Cgroup {
        &raw mut self.cgroup
    }

    pub fn css_set(&mut self) -> *mut CssSet {
        &raw mut self.set
    }

    /// The group of this id.
    pub fn find(&mut self, id: u64) -> *mut Cgroup {
        if id == ROOT_ID {
            self.cgroup()
        } else {
            null_mut()
        }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        for slot in self.cgroup.storage {
            kfuncs::release(slot);
        }
    }
}
