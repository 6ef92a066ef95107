//! Tests the data that CPUs share in `scheduler/equipoise`, under ThreadSanitizer and with a thread for each CPU: no
//! claimed CPU is lost, no request is overwritten unseen, and no share or limit of a control group loses a task or
//! time.

use crate::common::{FLAGS, scheduler};
use std::path::Path;
use std::process::Command;

/// Unlike in the simulated kernel, these threads are real, and READ_ONCE() is an atomic load.
const THREADS: &[&str] = &["-O1", "-g", "-fsanitize=thread", "-pthread"];

#[test]
fn cpus_that_run_at_once_lose_nothing() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("threads");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let compiled = Command::new(compiler)
        .args(FLAGS)
        .args(THREADS)
        .arg("-I")
        .arg(scheduler())
        .arg("-I")
        .arg(here.join("../native/include"))
        .arg("-o")
        .arg(&program)
        .arg(here.join("tests/c/equipoise_threads.c"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{said}");
    let ran = Command::new(&program).output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(ran.status.success(), "{out}{err}");
}
