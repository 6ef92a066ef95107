//! Compiles the scheduler to BPF, and makes its skeleton.

const SCHEDULER: &str = "../../scheduler";

fn main() {
    scx_cargo::BpfBuilder::new()
        .expect("needs clang 18 or later; BPF_CLANG names it")
        .enable_skel(&format!("{SCHEDULER}/main.bpf.c"), "bpf")
        .build()
        .expect("the scheduler must compile to BPF");
}
