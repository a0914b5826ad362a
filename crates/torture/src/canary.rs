//! Defects planted by name, to see that the checks find them. Only a build with the feature
//! `canary` has any.

/// Plants the defect of this name in the engine of this process.
///
/// # Errors
/// In words, if there is none of this name, or none in this build.
#[cfg(feature = "canary")]
pub fn plant(name: &str) -> Result<(), String> {
    use heliox::canary::{set, NAMES};
    let known = NAMES.iter().find(|(_, known, _)| *known == name);
    let names: Vec<&str> = NAMES.iter().map(|(_, name, _)| *name).collect();
    let (canary, _, _) =
        known.ok_or_else(|| format!("no canary {name}; there are: {}", names.join(", ")))?;
    set(Some(*canary));
    Ok(())
}

/// Plants the defect of this name in the engine of this process.
///
/// # Errors
/// Always: this build has none.
#[cfg(not(feature = "canary"))]
pub fn plant(name: &str) -> Result<(), String> {
    Err(format!(
        "no canary {name} in this build; build it with --features canary"
    ))
}
