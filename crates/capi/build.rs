//! Gives the shared library the name under which programs look for it: it carries the number of the
//! interface, `HELIOX_ABI_VERSION`, so that one that changed is not taken for the one they were built for.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libheliox.so.1");
}
