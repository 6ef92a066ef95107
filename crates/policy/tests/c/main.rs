//! The computations of the schedulers' C, called from Rust.

#[path = "../common/mod.rs"]
mod common;

mod capacity;
mod eevdf;
mod eevdf_balance;
mod eevdf_groups;
mod eevdf_moves;
mod energy;
mod equipoise;
mod equipoise_bandwidth;
mod equipoise_clusters;
mod equipoise_fair;
mod equipoise_kernel;
mod equipoise_threads;
mod fair;
mod frequency;
mod hmp;
mod imbalance;
mod newidle;
mod placement;
mod powersave;
mod scheduler;
mod task_util;
mod utilization;
