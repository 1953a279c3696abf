//! Whose an address is, as the lease file says it.

use std::fmt;

/// The attachment that holds a lease: a container and one of its interfaces.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    /// `CNI_CONTAINERID`; empty in a lease that lost its content, to a power cut say.
    pub container_id: String,
    /// `CNI_IFNAME`; empty in leases written by host-local before 0.7, which knew only the container.
    pub ifname: String,
}

impl Owner {
    /// The attachment of `ifname` in `container_id`.
    pub fn new(container_id: impl Into<String>, ifname: impl Into<String>) -> Self {
        Self { container_id: container_id.into(), ifname: ifname.into() }
    }

    /// True when a lease written for `self` belongs to `other`: the same attachment, or the same container
    /// when the lease does not name an interface.
    pub fn covers(&self, other: &Self) -> bool {
        self.container_id == other.container_id && (self.ifname.is_empty() || self.ifname == other.ifname)
    }

    /// The content of a lease file, that of the reference host-local: container ID, CR, LF, interface name,
    /// and no end of line.
    pub(super) fn to_lease(&self) -> String {
        format!("{}\r\n{}", self.container_id, self.ifname)
    }

    /// Reads the content of a lease file; `None` when it is empty, which makes the address free.
    pub(super) fn from_lease(content: &str) -> Option<Self> {
        if content.is_empty() {
            return None;
        }
        // Blocks that never reached the disk read as zeros.
        let content = content.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        let (container_id, ifname) = content.split_once("\r\n").unwrap_or((content, ""));
        Some(Self::new(container_id, ifname))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.container_id.is_empty() {
            f.write_str("nobody known")
        } else if self.ifname.is_empty() {
            f.write_str(&self.container_id)
        } else {
            write!(f, "{}/{}", self.container_id, self.ifname)
        }
    }
}
