//! Encrypted stores from the command line: keys by file and command, another key, and what is said
//! when the key is not right.
#![allow(clippy::unwrap_used)] // A test fails by panicking.

mod common;

use common::{text, Place};

#[test]
fn a_store_is_used_with_its_key_and_gets_another() {
    let place = Place::empty();
    let key = text(&place.file("key", "5a".repeat(32).as_bytes())).to_owned();
    let new = text(&place.file("new", &[7; 32])).to_owned();
    let key_args = ["--key-file", &key];
    let with = |args: &[&str], key: &[&str]| place.ok(&[args, key].concat());
    with(&["create", "STORE", "--capacity", "256M"], &key_args);
    with(
        &["put", "STORE", "my-secret-fruit", "green-apples"],
        &key_args,
    );
    let command = format!("cat {key}");
    let get = ["get", "STORE", "my-secret-fruit"];
    assert_eq!(with(&get, &["--key-command", &command]), "green-apples\n");
    let bytes = std::fs::read(place.store.join("data")).unwrap();
    for word in ["my-secret", "green-ap"] {
        let found = bytes.windows(word.len()).any(|w| w == word.as_bytes());
        assert!(!found, "{word} is on the device");
    }
    let said = place.fails(2, &get);
    assert!(said.contains("encrypted and no key is given"), "{said}");
    let said = place.fails(2, &[&get[..], &["--key-file", &new]].concat());
    assert!(said.contains("not that of the store"), "{said}");
    let said = place.fails(2, &[&get[..], &["--key-command", "exit 4"]].concat());
    assert!(
        said.contains("key command ended with exit status: 4"),
        "{said}"
    );
    let said = with(&["rotate-key", "STORE", "--new-key-file", &new], &key_args);
    assert!(said.contains("data keys: 2"), "{said}");
    place.fails(2, &[&get[..], &key_args].concat());
    let new_args = ["--key-file", new.as_str()];
    assert_eq!(with(&get, &new_args), "green-apples\n");
    assert!(with(&["check", "STORE"], &new_args).contains("checked"));
    with(&["stat", "STORE"], &new_args);
    let set = place.root.path().join("set");
    with(&["backup", "STORE", text(&set)], &new_args);
    with(&["verify", text(&set)], &new_args);
    let copy = place.root.path().join("copy");
    place.ok(&["restore", text(&set), text(&copy)]);
    let get_copy = ["get", text(&copy), "my-secret-fruit"];
    assert_eq!(with(&get_copy, &new_args), "green-apples\n");
}

#[test]
fn a_key_for_a_plain_store_and_half_given_options_are_refused() {
    let place = Place::with_store();
    let key = text(&place.file("key", &[7; 32])).to_owned();
    let said = place.fails(2, &["scan", "STORE", "--key-file", &key]);
    assert!(said.contains("the store is not encrypted"), "{said}");
    let said = place.fails(2, &["rotate-key", "STORE", "--new-key-file", &key]);
    assert!(said.contains("not encrypted"), "{said}");
    let said = place.fails(2, &["rotate-key", "STORE"]);
    assert!(
        said.contains("required") && said.contains("--new-key"),
        "{said}"
    );
    let both = ["--key-file", &key, "--key-command", "x"];
    let said = place.fails(2, &[&["scan", "STORE"][..], &both].concat());
    assert!(said.contains("cannot be used with"), "{said}");
    let both = ["--new-key-file", &key, "--new-key-command", "x"];
    let said = place.fails(2, &[&["rotate-key", "STORE"][..], &both].concat());
    assert!(said.contains("cannot be used with"), "{said}");
}
