//! `cargo xtask fuzz`: look for input that makes the plugin or the programs' packet code panic or hang, or replay what
//! was found before.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use ebpf_bridge_fuzz::TARGETS;

use crate::fault::Fault;
use crate::process::{self, passes, which};
use crate::workspace::Workspace;

/// Options of `cargo xtask fuzz`.
#[derive(Args)]
pub(crate) struct Options {
    /// The kind of input, or `all`
    #[arg(required_unless_present = "replay")]
    target: Option<String>,
    /// How long to look, for each target
    #[arg(long, value_name = "N", default_value_t = 600)]
    seconds: u32,
    /// Only run the kept inputs, which needs neither cargo-fuzz nor a nightly toolchain
    #[arg(long, conflicts_with_all = ["target", "seconds"])]
    replay: bool,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    if options.replay {
        return replay(workspace);
    }
    let names = chosen(options.target.as_deref().unwrap_or("all"))?;
    if which("cargo-fuzz").is_none() {
        let mend = "cargo install --locked cargo-fuzz && rustup toolchain install nightly --profile minimal";
        return Err(Fault::new("cargo-fuzz is missing", mend).into());
    }
    for name in &names {
        look(workspace, name, options.seconds)?;
    }
    println!("fuzz: {} s of {} each: no finding", options.seconds, names.join(", "));
    Ok(())
}

fn chosen(target: &str) -> Result<Vec<&'static str>> {
    let names = || TARGETS.iter().map(|target| target.name);
    let chosen: Vec<_> = names().filter(|name| target == "all" || target == *name).collect();
    if chosen.is_empty() {
        let known = names().collect::<Vec<_>>().join(", ");
        let sentence = format!("there is no fuzz target {target:?}, only {known}");
        return Err(Fault::new(sentence, "cargo xtask fuzz all").into());
    }
    Ok(chosen)
}

/// Runs the kept inputs as tests.
fn replay(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo("test");
    cargo.args(["--locked", "--package", "ebpf-bridge-fuzz", "--test", "replay", "--", "--show-output"]);
    if !passes(&mut cargo)? {
        let mend = "cargo test -p ebpf-bridge-fuzz --test replay";
        return Err(Fault::new("an input is handled wrongly, see above", mend).into());
    }
    for target in TARGETS {
        let kept = kept(workspace, target.name);
        let count = fs::read_dir(&kept).with_context(|| format!("listing {}", kept.display()))?.count();
        println!("fuzz: {}: {count} inputs replayed", target.name);
    }
    Ok(())
}

/// Runs libFuzzer on one target. What it learns about the target stays in cargo's target directory; what is worth
/// keeping is put under `tests/fuzz/corpus` by hand.
fn look(workspace: &Workspace, name: &str, seconds: u32) -> Result<()> {
    let place = workspace.target.join("fuzz");
    let [learned, found] = ["corpus", "artifacts"].map(|kind| place.join(kind).join(name));
    for directory in [&learned, &found] {
        fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    }
    // The proxy of rustup, which knows what +nightly means.
    let mut cargo = process::clean("cargo");
    cargo.current_dir(&workspace.root).args(["+nightly", "fuzz", "run"]);
    cargo.arg("--fuzz-dir=tests/fuzz/libfuzzer").arg("--target-dir").arg(place.join("build"));
    cargo.arg(name).args([&learned, &kept(workspace, name)]).arg("--");
    cargo.args(["-timeout=10", "-print_final_stats=1"]).arg(format!("-max_total_time={seconds}"));
    cargo.arg(format!("-artifact_prefix={}/", found.display()));
    let dictionary = workspace.root.join("tests/fuzz/dictionaries").join(name);
    if dictionary.is_file() {
        cargo.arg(format!("-dict={}", dictionary.display()));
    }
    if passes(&mut cargo)? {
        return Ok(());
    }
    let sentence =
        format!("{name}: an input is handled wrongly, see above; it is kept in {}", found.display());
    let mend = format!("copy it to {} and mend what it shows", kept(workspace, name).display());
    Err(Fault::new(sentence, mend).into())
}

fn kept(workspace: &Workspace, name: &str) -> PathBuf {
    workspace.root.join("tests/fuzz/corpus").join(name)
}
