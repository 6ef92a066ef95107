//! Schedulers as native objects: the C headers that a sched_ext scheduler sees when it is built for the simulated
//! kernel (`include/`), the compiler call, and the object's own data (maps, globals, ops).
//!
//! - An [`Object`] is a compiled scheduler: [`Object::compile`] compiles a file, and [`Object::own`] returns one of
//!   `scheduler/`.
//! - A [`Kernel`] is the Linux version whose sched_ext the scheduler sees, and a [`Feature`] is a part of sched_ext
//!   that some kernel lacks or deprecates.
//! - A [`Global`] is the value of a global variable, set before the object is loaded.
//!
//! ```no_run
//! let object = native::Object::compile("scx_simple.bpf.c".as_ref())?;
//! for map in object.maps() {
//!     println!("{}", map.name);
//! }
//! # Ok::<(), native::Error>(())
//! ```

mod cache;
mod compile;
mod debug_info;
mod description;
mod given;
mod kernels;
mod loading;
mod messages;
mod missing;
mod object;
mod objects;
mod ops;
mod own;
mod schedulers;

pub use debug_info::{Inner, MapDefinition};
pub use description::{Description, Map, Tracepoint, Variable};
pub use kernels::{Feature, Kernel, Kind};
pub use object::{Global, Image, Object};
pub use objects::write_own;
pub use schedulers::SCHEDULERS;

use cache::Cache;
use cage::{Files, Folder};
use compile::Call;
use given::Given;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

/// The reason why a scheduler could not be compiled or read. The message is complete: it has the file, the line and the
/// compiler's own message, if any.
#[derive(Debug, Serialize, Deserialize)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl Object {
    /// Compiles `source`, a sched_ext scheduler in C, for the newest kernel. The compiler is `$CC`, otherwise `cc` or,
    /// if that refuses the scheduler, clang.
    pub fn compile(source: &Path) -> Result<Object, Error> {
        Object::compile_all(&[source], &[], Kernel::default())
    }

    /// Compiles `sources`, the files of one scheduler, for `kernel`. An error about the whole scheduler names the first
    /// file. Headers are searched next to the sources, among the simulated kernel's headers, and in the folders
    /// `include`, in this order. Using a feature that `kernel` lacks is an error.
    pub fn compile_all(
        sources: &[&Path],
        include: &[&Path],
        kernel: Kernel,
    ) -> Result<Object, Error> {
        let expected = "expected a scheduler in C (FILE.bpf.c)";
        for source in sources {
            let name = source.display();
            // Open the source only if it is a file, because opening a pipe could block forever.
            let found = std::fs::metadata(source).and_then(|found| match found.is_file() {
                true => std::fs::File::open(source)?.metadata(),
                false => Ok(found),
            });
            match found {
                Err(error) => return Err(Error(format!("{name}: {error}; {expected}"))),
                Ok(found) if !found.is_file() || source.extension() != Some("c".as_ref()) => {
                    return Err(Error(format!("{name}: not a C source file; {expected}")));
                }
                Ok(_) => {}
            }
        }
        let Some(first) = sources.first() else {
            return Err(Error(expected.to_owned()));
        };
        let (name, others) = (first.display(), include);
        let include = Folder::new()
            .map_err(|error| Error(format!("{name}: no temporary folder: {error}")))?;
        let headers = compile::HEADERS.iter().try_for_each(|(path, text)| {
            let path = include.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a header is in a folder"))?;
            std::fs::write(path, text)
        });
        let headers = headers.and_then(|()| {
            std::fs::write(include.path().join(compile::KERNEL_HEADER), kernel.header())
        });
        headers.map_err(|error| Error(format!("{name}: {error}")))?;
        let folders = [&[include.path()], others].concat();
        let flags = [compile::FLAGS, compile::FOREIGN_FLAGS].concat();
        let given = Given::of(sources, others);
        let until = cage::deadline(sources.len());
        let file = include.path().join("equipoise/given.c");
        let build = |source: Option<String>| {
            let Some(text) = source else {
                return remedied(sources, &flags, &folders, until);
            };
            std::fs::write(&file, text).map_err(|error| error.to_string())?;
            let repeats = given.may_repeat().then_some(compile::FIRST_DEFINITION);
            let flags: Vec<&str> = flags.iter().copied().chain(repeats).collect();
            remedied(&[sources, &[&file]].concat(), &flags, &folders, until)
        };
        let first = given.source(false);
        let all = given.source(true).filter(|all| Some(all) != first.as_ref());
        let built = build(first).or_else(|said| match all {
            // A kfunc is undefined, because the headers define it only as a macro, or the files do not include these
            // headers.
            Some(all) if said.contains("undefined reference") => build(Some(all)).or(Err(said)),
            _ => Err(said),
        });
        let built = built.map_err(|said| Error(messages::explain(&name.to_string(), &said)))?;
        let object = Object::read(&name.to_string(), built)?;
        ops::check(&name.to_string(), &object)?;
        Ok(object)
    }
}

/// The shared object that [`shared_object`] makes with the options of [`compile::REMEDIES`] that the compiler requires.
/// The time limit is for all attempts together.
fn remedied(
    sources: &[&Path],
    flags: &[&str],
    include: &[&Path],
    until: Instant,
) -> Result<Vec<u8>, String> {
    let mut flags = flags.to_vec();
    loop {
        let built = object_until(sources, &flags, include, until);
        let Err(said) = &built else { return built };
        let mut remedies = compile::REMEDIES.iter();
        match remedies.find(|(part, flag)| said.contains(part) && !flags.contains(flag)) {
            Some((_, flag)) => flags.push(flag),
            None => return built,
        }
    }
}

/// The shared object that `$CC`, otherwise `cc` or, if that fails, clang makes of `sources` with `flags` and the header
/// folders `include`: from the user's cache, if the same input was compiled before. The error is the compiler's
/// message.
pub fn shared_object(
    sources: &[&Path],
    flags: &[&str],
    include: &[&Path],
) -> Result<Vec<u8>, String> {
    object_until(sources, flags, include, cage::deadline(sources.len()))
}

fn object_until(
    sources: &[&Path],
    flags: &[&str],
    include: &[&Path],
    until: Instant,
) -> Result<Vec<u8>, String> {
    let work = Folder::new().map_err(|error| format!("no temporary folder: {error}"))?;
    type Of = fn(&Cache, Call, &Path) -> Result<Vec<u8>, String>;
    let with = |compiler: &[OsString], of: Of| {
        let files = Files::of(compiler, sources, include, work.path(), until)?;
        let call = Call {
            compiler,
            flags,
            include,
            confine: &|command| files.confine(command),
            finish: cage::finish,
            sources,
        };
        of(&Cache::of_user(), call, work.path())
    };
    let first = compile::compiler();
    // Schedulers are written for clang, and a few compile only with it. The default compiler takes long to refuse a
    // scheduler of many files, so look up clang's object in the cache first.
    let Some(clang) = compile::clang().map(|clang| [clang]) else {
        return with(&first, Cache::compile);
    };
    let attempts: [(&[OsString], Of); 4] = [
        (&first, Cache::find),
        (&clang, Cache::find),
        (&first, Cache::compile),
        (&clang, Cache::compile),
    ];
    let mut refusal = String::new();
    for (compiler, of) in attempts {
        match with(compiler, of) {
            Ok(object) => return Ok(object),
            // A source that reaches a limit in one attempt would reach it in each attempt.
            Err(message) if cage::reached(&message).is_some() => return Err(message),
            Err(message) if compiler == first => refusal = message,
            Err(_) => {}
        }
    }
    Err(refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(text: &str) -> Result<Object, Error> {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("test.bpf.c");
        std::fs::write(&source, text).unwrap();
        Object::compile(&source)
    }

    const MINIMAL: &str = "#include <scx/common.bpf.h>\nSCX_OPS_DEFINE(ops, .name = \"x\");\n";

    #[test]
    fn all_passes_of_a_compiler_share_their_time() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("test.bpf.c");
        std::fs::write(&source, "int x;\n").unwrap();
        let built = |until| object_until(&[&source], &["-shared"], &[], until);
        assert!(built(cage::deadline(1)).is_ok());
        let message = built(Instant::now()).unwrap_err();
        assert!(cage::reached(&message).is_some(), "{message}");
        let explained =
            messages::explain("x.bpf.c", &format!("x.bpf.c:1:1: warning: x\n{message}"));
        let expected = "x.bpf.c: the compiler takes more than 45 s for a file";
        assert!(explained.starts_with(expected), "{explained}");
    }

    #[test]
    fn two_schedulers_are_not_the_files_of_one() {
        let folder = tempfile::tempdir().unwrap();
        let sources = ["a.bpf.c", "b.bpf.c"].map(|name| folder.path().join(name));
        for source in &sources {
            std::fs::write(source, MINIMAL).unwrap();
        }
        let error =
            Object::compile_all(&[&sources[0], &sources[1]], &[], Kernel::default()).unwrap_err();
        let expected = "a.bpf.c: `ops` is defined in more than one of the files; expected the files of one scheduler";
        assert!(error.0.ends_with(expected), "{error}");
    }

    #[test]
    fn static_variables_of_two_files_may_have_the_same_name() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a.bpf.c", "b.bpf.c"].map(|name| folder.path().join(name));
        let constants = "static const volatile u64 slice = 7;\nextern const volatile u64 limit;\n\
             const volatile u64 limit = 3;\nu64 f(void) { return slice + limit; }\n";
        std::fs::write(&a, format!("{MINIMAL}{constants}")).unwrap();
        let counts = "static volatile u64 slice;\nvoid g(void) { slice += 1; }\n";
        std::fs::write(&b, format!("#include <scx/common.bpf.h>\n{counts}")).unwrap();
        for sources in [[&*a, &*b], [&*b, &*a]] {
            let object = Object::compile_all(&sources, &[], Kernel::default()).unwrap();
            for (name, value) in [("slice", 7), ("limit", 3)] {
                assert!(object.is_settable(name), "{name}");
                let offset = object.variable(name).unwrap().file_offset.unwrap();
                assert_eq!(object.bytes()[offset as usize], value, "{name}");
            }
        }
    }

    #[test]
    fn a_global_pointer_to_a_task_gets_a_warning() {
        let object = compile(
            "#include <scx/common.bpf.h>
             typedef struct task_struct task;
             struct task_struct *kept;
             static task *volatile many[2][3];
             u64 number, *pointer;
             void f(struct task_struct *p) { struct task_struct *local = p; many[1][2] = local; pointer = &number; }
             SCX_OPS_DEFINE(ops, .name = \"x\");",
        );
        let warnings = object.unwrap().warnings();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        for name in ["`kept`", "`many`"] {
            assert!(
                warnings.iter().any(|warning| warning.starts_with(name)),
                "{warnings:?}"
            );
        }
    }

    #[test]
    fn what_the_simulated_kernel_lacks_gets_a_warning() {
        let object = compile(
            "#include <scx/common.bpf.h>
             extern int CONFIG_NR_CPUS __kconfig;
             extern int CONFIG_HZ __kconfig;
             extern bool CONFIG_NUMA __kconfig __weak;
             int f(void) { return CONFIG_NR_CPUS + CONFIG_HZ + CONFIG_NUMA; }
             SEC(\"tp_btf/sched_switch\") int BPF_PROG(runs, bool preempt) { return f(); }
             SEC(\"?fentry/do_exit\") int BPF_PROG(optional) { return 0; }
             SEC(\"kprobe/do_exit\") int BPF_PROG(probe) { return 0; }
             SEC(\"syscall\") int settle(void *ctx) { return 0; }
             SCX_OPS_DEFINE(ops, .name = \"x\", .flags = SCX_OPS_SWITCH_PARTIAL);",
        );
        let warnings = object.unwrap().warnings();
        let begins = [
            "SCX_OPS_SWITCH_PARTIAL has no effect: ",
            "test.bpf.c:8: probe() in section kprobe/do_exit does not run; ",
            "test.bpf.c:9: settle() in section syscall does not run; ",
            "`CONFIG_NR_CPUS` reads as 0 (not set), ",
        ];
        assert_eq!(warnings.len(), begins.len(), "{warnings:?}");
        for (warning, begin) in warnings.iter().zip(begins) {
            assert!(warning.starts_with(begin), "{warning}");
        }
    }

    #[test]
    fn a_file_s_name_does_not_break_the_line_of_a_message() {
        let object = compile(
            "#include <scx/common.bpf.h>
             #line 7 \"a\\033[2J\\nb.c\"
             SEC(\"kprobe/do_exit\") int f(void *ctx) { return 0; }
             SCX_OPS_DEFINE(ops, .name = \"x\");",
        );
        let warnings = object.unwrap().warnings();
        let line = "a\\u{1b}[2J\\nb.c:7: ";
        assert!(warnings[0].starts_with(line), "{warnings:?}");
    }

    #[test]
    fn a_static_map_is_refused() {
        let map = "struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 3);
             __type(key, u32); __type(value, u64); } map SEC(\".maps\");
             void *f(u32 key) { return bpf_map_lookup_elem(&map, &key); }";
        compile(&format!("{MINIMAL}{map}")).unwrap();
        let refused = compile(&format!("{MINIMAL}static {map}")).unwrap_err();
        assert!(refused.0.contains("map `map` is static"), "{refused}");
    }

    #[test]
    fn maps_are_read_as_they_are_defined() {
        let object = compile(
            "#include <scx/common.bpf.h>
             struct value { u64 a; u32 b; };
             struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 300);
                      __type(key, u32); __type(value, struct value); } array SEC(\".maps\");
             struct queue { __uint(type, BPF_MAP_TYPE_QUEUE); __uint(max_entries, 4096); __type(value, u32); }
                      one SEC(\".maps\"), two SEC(\".maps\");
             struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(key_size, sizeof(u32));
                      __uint(value_size, sizeof(u64)); __uint(max_entries, 2); } sizes SEC(\".maps\");
             u64 f(u64 a) { volatile u64 array = a; return array; }
             SCX_OPS_DEFINE(ops, .name = \"x\");",
        )
        .unwrap();
        let of = |name: &str| {
            object
                .maps()
                .iter()
                .find(|map| map.name == name)
                .unwrap()
                .definition
        };
        let expected = MapDefinition {
            kind: 2,
            key_size: 4,
            value_size: 16,
            max_entries: 300,
            values_offset: 0,
            inner: None,
        };
        assert_eq!(of("array"), expected);
        assert_eq!(
            (of("two").kind, of("two").value_size, of("two").max_entries),
            (22, 4, 4096)
        );
        assert_eq!((of("sizes").key_size, of("sizes").value_size), (4, 8));
    }

    #[test]
    fn globals_are_set_in_the_image() {
        let object = compile(&format!(
            "{MINIMAL}const volatile u64 slice_ns = 7; u32 counter;"
        ))
        .unwrap();
        assert_eq!(object.global_size("slice_ns"), Some(8));
        let global = |symbol: &str, bytes: &[u8]| Global {
            symbol: symbol.into(),
            bytes: bytes.into(),
        };
        let set = [
            global("slice_ns", &[1, 2, 3, 4, 5, 6, 7, 8]),
            global("counter", &[9, 0, 0, 0]),
        ];
        let Image { bytes, later } = object.image(&set).unwrap();
        let offset = object.variable("slice_ns").unwrap().file_offset.unwrap() as usize;
        assert_eq!(bytes[offset..offset + 8], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(later.len(), 1);
        assert!(object.image(&[global("absent", &[])]).is_err());
        assert!(object.image(&[global("counter", &[0; 5])]).is_err());
    }

    #[test]
    fn an_unsupported_function_is_named_with_its_line() {
        let undeclared = compile(&format!(
            "{MINIMAL}void f(void)\n{{\n\tbpf_no_such_thing(1);\n}}\n"
        ))
        .unwrap_err();
        assert!(
            undeclared
                .0
                .contains("test.bpf.c:5: bpf_no_such_thing() is not"),
            "{undeclared}"
        );
        let declared = compile(&format!(
            "{MINIMAL}extern int scx_bpf_new_one(int) __ksym;\nint f(void)\n{{\n\treturn scx_bpf_new_one(1);\n}}\n"
        ))
        .unwrap_err();
        assert!(
            declared
                .0
                .contains("test.bpf.c:6: scx_bpf_new_one() is not"),
            "{declared}"
        );
    }

    /// A source like published schedulers that include no header of scx, but have a generated vmlinux.h with other
    /// types beside them.
    const DECLARES: &str = "#include \"vmlinux.h\"
        #include <bpf/bpf_helpers.h>
        #include <bpf/bpf_tracing.h>
        extern s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
        extern bool scx_bpf_dsq_move_to_local(u64 dsq_id) __ksym __weak;
        SEC(\"struct_ops.s/init\") s32 BPF_PROG(my_init) { return scx_bpf_create_dsq(1, -1); }
        SEC(\"struct_ops/dispatch\") void BPF_PROG(my_dispatch, s32 cpu, struct task_struct *prev)
        { if (scx_bpf_dsq_move_to_local) scx_bpf_dsq_move_to_local(1); }
        SEC(\".struct_ops.link\") struct sched_ext_ops ops = {
            .init = (void *)my_init, .dispatch = (void *)my_dispatch, .name = \"x\" };";

    #[test]
    fn kfuncs_may_be_declared_by_the_scheduler() {
        compile(DECLARES).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("test.bpf.c");
        std::fs::write(&source, DECLARES).unwrap();
        let types = "#ifndef __VMLINUX_H__\n#define __VMLINUX_H__\nstruct task_struct { int other; };\n#endif\n";
        std::fs::write(folder.path().join("vmlinux.h"), types).unwrap();
        Object::compile(&source).unwrap();
        // The headers define the first function, but not the second.
        let both = format!(
            "{MINIMAL}extern void scx_bpf_destroy_dsq(u64 dsq_id) __ksym;\nextern int scx_bpf_new(int) __ksym;\n\
             int f(void)\n{{\n\tscx_bpf_destroy_dsq(1);\n\treturn scx_bpf_new(1);\n}}\n"
        );
        let refused = compile(&both).unwrap_err();
        assert!(
            refused.0.contains("test.bpf.c:8: scx_bpf_new() is not"),
            "{refused}"
        );
    }

    #[test]
    fn the_configuration_has_any_type() {
        let object = compile(&format!(
            "{MINIMAL}extern unsigned long CONFIG_HZ __kconfig;\nextern bool CONFIG_NO_HZ_FULL __kconfig __weak;\n\
             u64 f(void) {{ return CONFIG_HZ + CONFIG_NO_HZ_FULL; }}"
        ));
        assert_eq!(object.unwrap().global_size("CONFIG_HZ"), Some(8));
    }

    #[test]
    fn a_function_of_the_c_library_is_refused() {
        let refused = compile(&format!(
            "{MINIMAL}int usleep(unsigned int us);\nint f(void)\n{{\n\treturn usleep(1);\n}}\n"
        ))
        .unwrap_err();
        assert!(
            refused
                .0
                .contains("test.bpf.c: usleep() is a function of the C library"),
            "{refused}"
        );
        compile(&format!(
            "{MINIMAL}struct s {{ u64 a[100]; }} from, to;\nint bcmp(const void *, const void *, size_t);\n\
             bool f(void)\n{{\n\tto = from;\n\treturn bcmp(&from, &to, sizeof(to));\n}}\n"
        ))
        .unwrap();
    }

    #[test]
    fn a_weak_name_is_the_kernel_s_or_refused() {
        let weak = |declared: &str| {
            compile(&format!(
                "{MINIMAL}extern {declared} __weak;\nu64 f(void)\n{{\n\treturn (u64)&chmod;\n}}\n"
            ))
        };
        let refused = weak("int chmod(int)").unwrap_err();
        let expected = "test.bpf.c: chmod() is a function of the C library, which BPF";
        assert!(refused.0.contains(expected), "{refused}");
        weak("int chmod(int) __ksym").unwrap();
        weak("const int chmod __ksym").unwrap();
    }

    #[test]
    fn code_that_would_run_at_load_time_is_refused() {
        for (text, part) in [
            ("void _init(void) { for (;;); }", "an _init()"),
            ("void _fini(void) { for (;;); }", "a _fini()"),
            (
                "asm(\".section run,\\\"awx\\\"\\n.quad 0\\n.text\");",
                "both code and data",
            ),
            (
                "asm(\".section .note.GNU-stack,\\\"x\\\"\\n.text\");",
                "an executable stack",
            ),
            (
                "__attribute__((tls_model(\"initial-exec\"))) __thread u64 mine;\nu64 f(void) { return mine++; }",
                "thread-local variables",
            ),
        ] {
            let refused = compile(&format!("{MINIMAL}{text}\n")).unwrap_err();
            assert!(refused.0.contains(part), "{text}: {refused}");
        }
    }

    #[test]
    fn other_mistakes_keep_the_compilers_words() {
        let syntax = compile(&format!("{MINIMAL}int x = ;\n")).unwrap_err();
        assert!(
            syntax.0.contains("test.bpf.c:3:") && syntax.0.contains("error:"),
            "{syntax}"
        );
        assert!(
            compile("#include <scx/common.bpf.h>\n")
                .unwrap_err()
                .0
                .contains("no sched_ext_ops")
        );
        let quoted = compile(&format!(
            "{MINIMAL}int x = absent; /* out of memory, threshold: 5 */\n"
        ))
        .unwrap_err();
        assert!(
            quoted.0.contains("test.bpf.c:3:") && quoted.0.lines().count() == 1,
            "{quoted}"
        );
        let missing = Object::compile(Path::new("/no/such/file.bpf.c")).unwrap_err();
        assert!(
            missing.0.starts_with("/no/such/file.bpf.c: No such file"),
            "{missing}"
        );
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("scheduler.txt");
        std::fs::write(&text, MINIMAL).unwrap();
        for other in [folder.path(), &text] {
            let refused = Object::compile(other).unwrap_err();
            assert!(refused.0.contains("not a C source file"), "{refused}");
        }
    }
}
