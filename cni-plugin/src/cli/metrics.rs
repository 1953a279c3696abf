//! `metrics`: the node in numbers, for Prometheus: once, to a file of the node exporter's, or to whoever asks.

mod exposition;
mod gather;
mod listen;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::Args;

use super::{replace::replace, write};

/// Where the numbers go.
#[derive(Args)]
pub(super) struct Metrics {
    /// Write them to this file, for the node exporter's textfile collector
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    textfile: Option<PathBuf>,
    /// Answer scrapes of http://ADDR/metrics until SIGTERM or SIGINT
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Directory of the network configurations, for the leases that are left
    #[arg(long, value_name = "DIR", default_value = "/etc/cni/net.d")]
    conf_dir: PathBuf,
}

pub(super) fn metrics(options: &Metrics, bpffs: &Path) -> anyhow::Result<()> {
    let (bpffs, conf_dir) = (bpffs.to_owned(), options.conf_dir.clone());
    let page = move || gather::page(&bpffs, &conf_dir);
    match (&options.textfile, options.listen) {
        (Some(path), _) => replace(path, page()?.as_bytes(), 0o644)
            .with_context(|| format!("cannot write {}", path.display())),
        (None, Some(address)) => listen::listen(address, page),
        (None, None) => Ok(write(page()?.as_bytes())?),
    }
}
