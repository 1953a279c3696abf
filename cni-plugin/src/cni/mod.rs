//! The CNI protocol: what a runtime says and what it gets back. Knows nothing of bridges or eBPF.

pub mod delegate;
pub mod error;
pub mod layout;
pub mod request;
pub mod types;
pub mod version;
