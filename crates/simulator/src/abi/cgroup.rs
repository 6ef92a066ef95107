//! Control groups: there is the root group, and every task is in it.

use crate::abi::layout::{Cgroup, CssSet, KernfsNode, TaskGroup};
use crate::abi::objects::release;
use crate::abi::shared::Shared;
use std::ptr::null_mut;

/// The root control group and what points to it.
pub struct Root(Shared<Parts>);

struct Parts {
    cgroup: Cgroup,
    node: KernfsNode,
    group: TaskGroup,
    set: CssSet,
}

/// `kn->id` of the root of the default hierarchy.
const ROOT_ID: u64 = 1;

impl Root {
    pub fn new() -> Root {
        let parts = Shared::from(Box::new(Parts {
            cgroup: Cgroup {
                self_css: null_mut(),
                kn: null_mut(),
                level: 0,
                cpu_css: null_mut(),
                storage: Default::default(),
            },
            node: KernfsNode {
                id: ROOT_ID,
                name: c"".as_ptr(),
            },
            group: TaskGroup {
                css: null_mut(),
                weight: 100,
            },
            set: CssSet {
                dfl_cgrp: null_mut(),
            },
        }));
        let root = parts.as_ptr();
        // SAFETY: just made.
        unsafe {
            (*root).cgroup.self_css = &raw mut (*root).cgroup;
            (*root).cgroup.kn = &raw mut (*root).node;
            (*root).cgroup.cpu_css = &raw mut (*root).group;
            (*root).group.css = &raw mut (*root).cgroup;
            (*root).set.dfl_cgrp = &raw mut (*root).cgroup;
        }
        Root(parts)
    }

    pub fn cgroup(&self) -> *mut Cgroup {
        // SAFETY: it is alive; only the address is taken.
        unsafe { &raw mut (*self.0.as_ptr()).cgroup }
    }

    pub fn css_set(&self) -> *mut CssSet {
        // SAFETY: as above.
        unsafe { &raw mut (*self.0.as_ptr()).set }
    }

    /// The group of this id.
    pub fn find(&self, id: u64) -> *mut Cgroup {
        match id {
            ROOT_ID => self.cgroup(),
            _ => null_mut(),
        }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        for slot in self.0.cgroup.storage {
            release(slot);
        }
    }
}
