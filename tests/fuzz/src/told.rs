//! What an error must be like when it reaches the runtime.

use ebpf_bridge::{
    cni::error::Code,
    verbs::{VerbError, tell},
};

/// Bad input: its own fault, not the node's, in one clear sentence.
pub(crate) fn refused(error: impl Into<VerbError>) {
    let error = error.into();
    let allowed = [
        Code::IncompatibleVersion,
        Code::UnsupportedField,
        Code::InvalidEnvironment,
        Code::Decode,
        Code::InvalidConfig,
    ];
    assert!(allowed.contains(&error.code()), "code {:?} for bad input: {error}", error.code());
    sentence(&error);
}

/// Any error: a code, and one line.
pub(crate) fn sentence(error: &VerbError) {
    let told = tell(error, b"{}");
    assert_ne!(told.code, 0, "an error without a code");
    assert!(!told.msg.trim().is_empty(), "an error without a word");
    assert!(!told.msg.contains(char::is_control), "more than one line: {:?}", told.msg);
}
