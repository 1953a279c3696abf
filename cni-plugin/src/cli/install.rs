//! `install`: the binary first, and last the configuration, which is what makes the runtime call it.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

use super::{ABOUT, Report, SCHEMA_VERSION, replace::replace};
use crate::config::{List, TYPE};

/// The list that `--pod-cidr` completes.
const LIST: &str = include_str!("../../../conf/10-ebpf-bridge.conflist");

/// What to install, and where.
#[derive(Args)]
pub(super) struct Install {
    #[command(flatten)]
    place: Place,
    /// Write a configuration for these pods' addresses: one subnet, or one of each family, separated by a comma
    #[arg(long, value_delimiter = ',', value_name = "SUBNET", conflicts_with = "conflist")]
    pod_cidr: Vec<String>,
    /// Write this configuration, a list of plugins with one of ours
    #[arg(long, value_name = "FILE")]
    conflist: Option<PathBuf>,
    /// Replace files of the same names that are not ours
    #[arg(long)]
    force: bool,
}

/// Where the runtime looks.
#[derive(Args)]
pub(super) struct Place {
    /// Directory of the CNI plugins
    #[arg(long, value_name = "DIR", default_value = "/opt/cni/bin")]
    bin_dir: PathBuf,
    /// Directory of the network configurations
    #[arg(long, value_name = "DIR", default_value = "/etc/cni/net.d")]
    pub(super) conf_dir: PathBuf,
    /// Name of the network configuration; of those in the directory a runtime takes the first in the alphabet
    #[arg(long, value_name = "NAME", default_value = "10-ebpf-bridge.conflist", value_parser = conf_name)]
    conf_name: String,
}

impl Place {
    pub(super) fn binary(&self) -> PathBuf {
        self.bin_dir.join(TYPE)
    }

    pub(super) fn conf(&self) -> PathBuf {
        self.conf_dir.join(&self.conf_name)
    }
}

/// Lists and single configurations are told apart by the name (libcni, `ConfFiles`); we write lists.
fn conf_name(text: &str) -> Result<String, String> {
    match text.strip_suffix(".conflist") {
        Some(stem) if !stem.is_empty() && !text.contains('/') => Ok(text.to_owned()),
        _ => Err("allowed is a file name that ends in .conflist".to_owned()),
    }
}

pub(super) fn install(options: &Install) -> anyhow::Result<Report> {
    let list = options.list()?;
    let place = &options.place;
    // Everything is looked at before anything is written.
    let own = env::current_exe().context("cannot find the running binary")?;
    let binary = fs::read(&own).with_context(|| format!("cannot read {}", own.display()))?;
    let binary = File { path: place.binary(), content: binary, mode: 0o755, is_ours: is_our_binary };
    let conf = list.map(|content| File { path: place.conf(), content, mode: 0o644, is_ours: is_our_conf });
    let states =
        [Some(binary.state(options.force)?), conf.as_ref().map(|c| c.state(options.force)).transpose()?];
    let files: Vec<(&File, State)> =
        [Some(&binary), conf.as_ref()].into_iter().zip(states).filter_map(|(f, s)| f.zip(s)).collect();
    for (file, state) in &files {
        file.put(*state)?;
    }
    Ok(report(&files))
}

impl Install {
    /// The configuration asked for, validated.
    fn list(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let (origin, text) = match &self.conflist {
            Some(path) => {
                let text =
                    fs::read(path).with_context(|| format!("cannot read --conflist {}", path.display()))?;
                (format!("--conflist {}", path.display()), text)
            }
            None if self.pod_cidr.is_empty() => return Ok(None),
            None => (format!("--pod-cidr {}", self.pod_cidr.join(",")), list_for(&self.pod_cidr)?),
        };
        List::parse(&text).and_then(|list| list.networks()).context(origin)?;
        Ok(Some(text))
    }
}

/// The usual list, for these subnets.
fn list_for(pod_cidr: &[String]) -> anyhow::Result<Vec<u8>> {
    let mut list: Value = serde_json::from_str(LIST)?;
    for plugin in list["plugins"].as_array_mut().into_iter().flatten().filter(|plugin| plugin["type"] == TYPE)
    {
        if let Some(keys) = plugin.as_object_mut() {
            keys.remove("ipam");
            keys.insert("podCIDR".to_owned(), json!(pod_cidr));
        }
    }
    Ok(format!("{list:#}\n").into_bytes())
}

/// A file to be put in place.
struct File {
    path: PathBuf,
    content: Vec<u8>,
    mode: u32,
    is_ours: fn(&[u8]) -> bool,
}

/// What there is in its place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Absent,
    Same,
    Other,
}

impl File {
    fn state(&self, force: bool) -> anyhow::Result<State> {
        let found = match fs::read(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(State::Absent),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", self.path.display())),
        };
        anyhow::ensure!(
            force || (self.is_ours)(&found),
            "{} is there and not ours; --force replaces it",
            self.path.display()
        );
        Ok(if found == self.content { State::Same } else { State::Other })
    }

    fn put(&self, state: State) -> anyhow::Result<()> {
        if state == State::Same {
            return Ok(());
        }
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot create {}", directory.display()))?;
        }
        let shown = self.path.display();
        replace(&self.path, &self.content, self.mode).with_context(|| format!("cannot write {shown}"))
    }
}

/// True for any version of this program.
pub(super) fn is_our_binary(content: &[u8]) -> bool {
    let first = ABOUT.as_bytes()[0];
    content.iter().enumerate().any(|(at, &byte)| byte == first && content[at..].starts_with(ABOUT.as_bytes()))
}

/// True for configurations with a plugin of ours.
pub(super) fn is_our_conf(content: &[u8]) -> bool {
    List::parse(content).is_ok_and(|list| !list.ours().is_empty())
}

/// True if the file is there and passes.
pub(super) fn there(path: &Path, is_ours: fn(&[u8]) -> bool) -> bool {
    fs::read(path).is_ok_and(|content| is_ours(&content))
}

fn report(files: &[(&File, State)]) -> Report {
    let mut table = String::new();
    let mut done = Vec::new();
    for (file, state) in files {
        let outcome = match state {
            State::Absent => "installed",
            State::Same => "unchanged",
            State::Other => "replaced",
        };
        table.push_str(&format!("{outcome} {}\n", file.path.display()));
        done.push(json!({ "path": file.path, "outcome": outcome }));
    }
    if files.len() == 1 {
        table.push_str("no configuration was written: --pod-cidr SUBNET or --conflist FILE writes one\n");
    }
    Report { json: json!({ "schemaVersion": SCHEMA_VERSION, "files": done }), table }
}
