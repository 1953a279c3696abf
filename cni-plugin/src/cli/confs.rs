//! The node's network configurations, as container runtimes find them: the first file in the alphabet counts.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context;

use crate::config::{List, ListError, Network};

/// A configuration file.
pub(super) struct Conf {
    pub(super) path: PathBuf,
    pub(super) list: Result<List, ListError>,
}

impl Conf {
    /// True if it names our plugin.
    pub(super) fn is_ours(&self) -> bool {
        self.list.as_ref().is_ok_and(|list| !list.ours().is_empty())
    }

    /// Its name in the directory.
    pub(super) fn name(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// All files that runtimes take for configurations (libcni, `ConfFiles`), in their order. No directory, none.
pub(super) fn confs(directory: &Path) -> anyhow::Result<Vec<Conf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("cannot list {}", directory.display()))?,
    };
    let is_conf = |path: &PathBuf| {
        path.is_file()
            && path.extension().is_some_and(|kind| kind == "conf" || kind == "conflist" || kind == "json")
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_conf).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Conf { path, list: List::parse(&text) })
    };
    paths.into_iter().map(read).collect()
}

/// Our networks in all of them, as far as they are valid.
pub(super) fn networks(confs: &[Conf]) -> Vec<Network> {
    let lists = confs.iter().filter_map(|conf| conf.list.as_ref().ok());
    lists.filter_map(|list| list.networks().ok()).flatten().collect()
}
