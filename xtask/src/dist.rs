//! `cargo xtask dist`: the archive of a release. The same commit makes the same bytes.

mod licences;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use tar::{Builder, Header};

use crate::build;
use crate::process::{self, Captured};
use crate::workspace::Workspace;

const SUMS: &str = "SHA256SUMS";
/// What is taken from the repository as it is, files and directories.
const COPIED: [&str; 5] = ["LICENSE", "README.md", "CHANGELOG.md", "conf", "docs"];
const SHELLS: [(&str, &str); 3] =
    [("bash", "ebpf-bridge"), ("zsh", "_ebpf-bridge"), ("fish", "ebpf-bridge.fish")];

/// Files by their path in the archive: content and whether it is executable.
type Files = BTreeMap<String, (Vec<u8>, bool)>;

/// Builds the plugin and packs it.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let plugin = build::run(workspace)?;
    let archive = pack(workspace, &plugin)?;
    let packed = fs::read(&archive)?;
    pack(workspace, &plugin)?;
    ensure!(fs::read(&archive)? == packed, "packed twice, {} is not the same", archive.display());
    println!("packed {}, {} KiB, sha256 {}", archive.display(), packed.len() >> 10, hex(&packed));
    Ok(())
}

/// Packs the built plugin with everything that goes with it, and returns the archive's path.
pub(crate) fn pack(workspace: &Workspace, plugin: &Path) -> Result<PathBuf> {
    let name = format!("ebpf-bridge-{}-linux-{}", env!("CARGO_PKG_VERSION"), env::consts::ARCH);
    let mut files = files(workspace, plugin)?;
    let sums =
        files.iter().map(|(path, (content, _))| format!("{}  {path}\n", hex(content))).collect::<String>();
    files.insert(SUMS.to_owned(), (sums.into_bytes(), false));
    let packed = archive(&name, time(workspace)?, &files)?;
    let path = workspace.target.join("dist").join(format!("{name}.tar.gz"));
    fs::write(&path, &packed).with_context(|| format!("cannot write {}", path.display()))?;
    let sum = format!("{}  {name}.tar.gz\n", hex(&packed));
    fs::write(path.with_extension("gz.sha256"), sum)?;
    Ok(path)
}

fn files(workspace: &Workspace, plugin: &Path) -> Result<Files> {
    let mut files = Files::new();
    files.insert("ebpf-bridge".to_owned(), (fs::read(plugin)?, true));
    for path in COPIED {
        copy(&workspace.root, Path::new(path), &mut files)?;
    }
    for (shell, name) in SHELLS {
        let script = Captured::of(process::clean(plugin).args(["completions", shell]))?.success()?.stdout;
        files.insert(format!("completions/{name}"), (script.into_bytes(), false));
    }
    let pages = workspace.target.join("xtask/man");
    Captured::of(process::clean(plugin).args(["man", "--dir"]).arg(&pages))?.success()?;
    copy(&workspace.target.join("xtask"), Path::new("man"), &mut files)?;
    files.insert("THIRD-PARTY.txt".to_owned(), (licences::collect(workspace)?.into_bytes(), false));
    Ok(files)
}

/// A file, or everything in a directory, by its path below `root`.
fn copy(root: &Path, path: &Path, files: &mut Files) -> Result<()> {
    let from = root.join(path);
    let reading = || format!("cannot read {}", from.display());
    if from.is_dir() {
        for entry in fs::read_dir(&from).with_context(reading)? {
            copy(root, &path.join(entry?.file_name()), files)?;
        }
        return Ok(());
    }
    let name = path.to_str().context("a path that is not UTF-8")?;
    files.insert(name.to_owned(), (fs::read(&from).with_context(reading)?, false));
    Ok(())
}

/// Seconds since the Unix epoch: `SOURCE_DATE_EPOCH`, or the commit's.
fn time(workspace: &Workspace) -> Result<u64> {
    let stated = match env::var("SOURCE_DATE_EPOCH") {
        Ok(stated) => stated,
        Err(_) => {
            let mut git = process::clean("git");
            git.arg("-C").arg(&workspace.root).args(["log", "-1", "--format=%ct"]);
            Captured::of(&mut git)?.success()?.stdout
        }
    };
    let stated = stated.trim();
    stated.parse().with_context(|| format!("SOURCE_DATE_EPOCH is {stated:?}; allowed are seconds since 1970"))
}

/// In the order of their names, owned by root, of one time, and with a gzip header that says nothing of where it was made.
fn archive(name: &str, time: u64, files: &Files) -> Result<Vec<u8>> {
    let mut tar = Builder::new(Vec::new());
    for (path, (content, executable)) in files {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(if *executable { 0o755 } else { 0o644 });
        header.set_mtime(time);
        header.set_username("root")?;
        header.set_groupname("root")?;
        tar.append_data(&mut header, format!("{name}/{path}"), content.as_slice())?;
    }
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
    gzip.write_all(&tar.into_inner()?)?;
    Ok(gzip.finish()?)
}

fn hex(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn an_archive_says_nothing_of_who_made_it_and_tar_reads_it() {
        let files = Files::from([
            ("b".to_owned(), (b"run me".to_vec(), true)),
            ("a/c".to_owned(), (b"read me".to_vec(), false)),
        ]);
        let packed = archive("name", 1_000_000_000, &files).unwrap();
        assert_eq!(packed, archive("name", 1_000_000_000, &files).unwrap());
        let mut tar = process::clean("tar");
        let tar = tar.args(["-tvz", "--full-time", "--utc"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut tar = tar.spawn().unwrap();
        tar.stdin.take().unwrap().write_all(&packed).unwrap();
        let listed = String::from_utf8(tar.wait_with_output().unwrap().stdout).unwrap();
        let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
        let expected = [
            ["-rw-r--r--", "root/root", "7", "2001-09-09", "01:46:40", "name/a/c"],
            ["-rwxr-xr-x", "root/root", "6", "2001-09-09", "01:46:40", "name/b"],
        ];
        assert_eq!(lines, expected);
    }
}
