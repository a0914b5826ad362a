//! The C interface as programs use it: compiled by the system's compilers, linked, run, installed.
#![allow(clippy::unwrap_used, clippy::panic)] // a failure is the test's

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const C: &[&str] = &["-xc", "-std=c11", "-pedantic"];
const CXX: &[&str] = &["-xc++", "-std=c++17", "-pedantic"];
const WARNINGS: &[&str] = &["-g", "-Wall", "-Wextra", "-Werror"];
const SANITIZERS: &str = "-fsanitize=address,undefined";
const HEADER: &str = include_str!("../../../include/heliox.h");
const GUIDE: &str = include_str!("../../../docs/c-api.md");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where cargo has put the libraries for this test.
fn built() -> PathBuf {
    let test = env::current_exe().unwrap();
    let deps = test.parent().unwrap().to_owned();
    assert!(deps.join("libheliox_c.so").exists(), "{}", deps.display());
    deps
}

/// A directory in which the library has the names that programs look for.
fn linkable() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["libheliox.so", "libheliox.so.1"] {
        symlink(built().join("libheliox_c.so"), dir.path().join(name)).unwrap();
    }
    dir
}

fn run(command: &mut Command) -> Output {
    let output = command.output();
    let output = output.unwrap_or_else(|error| {
        panic!("{command:?}: {error}; `scripts/setup test` installs what is missing")
    });
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn said(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

/// The compiler of the language, and its flags.
fn compiler(language: &[&'static str]) -> (&'static str, Vec<&'static str>) {
    let name = if language == C { "cc" } else { "c++" };
    (name, [language, WARNINGS].concat())
}

/// The flags for the sanitizers, where the compiler has them.
fn sanitizers(language: &[&'static str], dir: &Path) -> Vec<&'static str> {
    let probe = dir.join("probe");
    let (name, flags) = compiler(language);
    fs::write(&probe, "int main(void) { return 0; }").unwrap();
    let mut command = Command::new(name);
    command.args(flags).arg(SANITIZERS).arg(&probe);
    command.arg("-o").arg(dir.join("probed"));
    if command.output().is_ok_and(|output| output.status.success()) {
        return vec![SANITIZERS];
    }
    eprintln!("without sanitizers: {name} has none here");
    Vec::new()
}

/// Compiles a program against the tree, runs it, and gives what it said.
fn compile_and_run(language: &[&'static str], source: &Path, sanitized: bool) -> String {
    let (lib, dir) = (linkable(), tempfile::tempdir().unwrap());
    let program = lib.path().join("program");
    let (name, flags) = compiler(language);
    let mut command = Command::new(name);
    command.args(flags);
    if sanitized {
        command.args(sanitizers(language, lib.path()));
    }
    command.arg("-I").arg(root().join("include")).arg(source);
    command.arg("-L").arg(lib.path()).arg("-lheliox");
    run(command.arg("-o").arg(&program));
    let mut command = Command::new(&program);
    command.arg(dir.path()).current_dir(dir.path());
    let output = run(command.env("LD_LIBRARY_PATH", lib.path()));
    said(&output).to_owned()
}

fn source(name: &str) -> PathBuf {
    root().join("crates/capi/tests/c").join(name)
}

#[test]
fn a_program_in_c_uses_everything() {
    assert_eq!(compile_and_run(C, &source("api.c"), false), "all holds\n");
}

#[test]
fn it_does_so_under_the_sanitizers() {
    assert_eq!(compile_and_run(C, &source("api.c"), true), "all holds\n");
}

#[test]
fn a_program_in_cxx_uses_everything() {
    let said = compile_and_run(CXX, &source("api.cpp"), true);
    assert_eq!(said, "all holds\n");
}

/// Names that follow `HELIOX_API` and stand before a bracket.
fn functions() -> Vec<&'static str> {
    let after = HEADER.split("HELIOX_API ").skip(1);
    let front = after.filter_map(|text| text.split('(').next());
    let names = front.filter_map(|front| front.split([' ', '*']).next_back());
    names.filter(|name| name.starts_with("heliox_")).collect()
}

/// True if the program calls the function.
fn calls(program: &str, function: &str) -> bool {
    program.contains(&format!("{function}("))
}

#[test]
fn nothing_is_left_out_by_the_programs_or_by_the_cover_for_cxx() {
    let names = functions();
    assert!(names.len() >= 120, "{} functions were found", names.len());
    let program = fs::read_to_string(source("api.c")).unwrap();
    let cover = fs::read_to_string(root().join("include/heliox.hpp")).unwrap();
    for name in names {
        assert!(calls(&program, name), "api.c does not use {name}");
        let is_own = [
            "version",
            "list_",
            "output_clear",
            "error_code",
            "code_name",
        ]
        .iter()
        .any(|own| name.contains(own));
        assert!(is_own || cover.contains(name), "heliox.hpp lacks {name}");
    }
}

/// The first block of code of the language.
fn block(language: &str) -> &'static str {
    let open = format!("```{language}\n");
    let (_, rest) = GUIDE.split_once(&open).unwrap();
    rest.split("```").next().unwrap()
}

const FILMS: &str = "The Matrix\nno such film\ntt0083658 Blade Runner\n";

#[test]
fn the_programs_of_the_guide_run() {
    let dir = tempfile::tempdir().unwrap();
    for (language, flags) in [("c", C), ("cpp", CXX)] {
        let program = dir.path().join(language);
        fs::write(&program, block(language)).unwrap();
        assert_eq!(compile_and_run(flags, &program, true), FILMS);
    }
}

/// The lines of a comment between the first that begins so and the first that ends so.
fn example(header: &str, first: &str, last: &str) -> String {
    let lines = header.lines().skip_while(|line| !line.contains(first));
    let mut taken = String::new();
    for line in lines {
        taken.push_str(line.trim_start_matches(" *"));
        taken.push('\n');
        if line.contains(last) {
            return taken;
        }
    }
    panic!("no {first} to {last}");
}

#[test]
fn the_examples_at_the_head_of_the_headers_run() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    let body = example(
        HEADER,
        "heliox_store *store = NULL;",
        "heliox_store_free(store);",
    );
    let text = format!("#include <heliox.h>\n#include <stdio.h>\nint main(void) {{\n{body}}}\n");
    fs::write(&program, text).unwrap();
    assert_eq!(compile_and_run(C, &program, true), "The Matrix\n");
    let cover = fs::read_to_string(root().join("include/heliox.hpp")).unwrap();
    let body = example(
        &cover,
        "auto store = heliox::Store::open",
        "std::cout << it.key()",
    );
    let text = format!("#include <heliox.hpp>\n#include <iostream>\nint main() {{\n{body}}}\n");
    fs::write(&program, text).unwrap();
    let said = compile_and_run(CXX, &program, true);
    assert_eq!(said, "The Matrix\ntt0133093\n");
}

/// Installs into a directory, and moves that, since a prefix may be moved.
fn installed() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (first, prefix) = (dir.path().join("first"), dir.path().join("a prefix"));
    let script = root().join("scripts/install-capi");
    run(Command::new(script)
        .arg(built())
        .arg(&first)
        .env_remove("DESTDIR"));
    fs::rename(&first, &prefix).unwrap();
    (dir, prefix)
}

/// Files of a project that is outside of the tree.
fn project(dir: &Path, files: &[(&str, &str)]) -> PathBuf {
    let project = dir.join("project");
    fs::create_dir_all(&project).unwrap();
    for (name, text) in files {
        fs::write(project.join(name), text).unwrap();
    }
    project
}

const LISTS: &str = r#"
cmake_minimum_required(VERSION 3.18)
project(films C CXX)
find_package(Heliox 0.1 REQUIRED)
add_executable(shared films.c)
target_link_libraries(shared Heliox::heliox)
add_executable(static films.c)
target_link_libraries(static Heliox::heliox_static)
set(CMAKE_CXX_STANDARD 17)
add_executable(cxx films.cpp)
target_link_libraries(cxx Heliox::heliox)
"#;

#[test]
fn a_project_is_built_by_cmake() {
    let (dir, prefix) = installed();
    let files = [
        ("films.c", block("c")),
        ("films.cpp", block("cpp")),
        ("CMakeLists.txt", LISTS),
    ];
    let (project, build) = (project(dir.path(), &files), dir.path().join("build"));
    let at_prefix = [OsStr::new("-DCMAKE_PREFIX_PATH="), prefix.as_os_str()].join(OsStr::new(""));
    let mut command = Command::new("cmake");
    command.arg("-S").arg(&project).arg("-B").arg(&build);
    run(command.arg(&at_prefix));
    run(Command::new("cmake").arg("--build").arg(&build));
    for program in ["shared", "static", "cxx"] {
        let place = tempfile::tempdir().unwrap();
        let output = run(Command::new(build.join(program)).current_dir(place.path()));
        assert_eq!(said(&output), FILMS, "{program}");
    }
    // Another version is not taken for this one.
    let lists = LISTS.replace("Heliox 0.1", "Heliox 0.9");
    fs::write(project.join("CMakeLists.txt"), lists).unwrap();
    let mut command = Command::new("cmake");
    command
        .arg("-S")
        .arg(&project)
        .arg("-B")
        .arg(dir.path().join("b2"));
    let output = command.arg(&at_prefix).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("version"));
}

#[test]
fn a_project_is_built_by_pkg_config() {
    let (dir, prefix) = installed();
    let project = project(dir.path(), &[("films.c", block("c"))]);
    let config = |arguments: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        said(&run(command.args(arguments).arg("heliox")))
            .trim()
            .to_owned()
    };
    let version = config(&["--modversion"]);
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    // By the shell, as a makefile would, since the words may be quoted.
    for (flags, name) in [
        ("--cflags --libs", "shared"),
        ("--static --cflags --libs", "static"),
    ] {
        let words = config(&flags.split(' ').collect::<Vec<_>>());
        let command = format!("cc films.c -o {name} {words}");
        run(Command::new("sh")
            .arg("-c")
            .arg(command)
            .current_dir(&project));
        let place = tempfile::tempdir().unwrap();
        let mut program = Command::new(project.join(name));
        program.env("LD_LIBRARY_PATH", prefix.join("lib"));
        assert_eq!(said(&run(program.current_dir(place.path()))), FILMS);
    }
}
