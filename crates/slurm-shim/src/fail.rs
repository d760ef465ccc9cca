//! How a command ends: an exit code, or an error with the lines that go to standard error.

use muster_api::ApiError;
use muster_client::ClientError;

/// Why a command could not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) code: i32,
    /// Lines for standard error, complete; empty for none.
    pub(crate) text: String,
}

/// A command's end.
pub(crate) type Outcome = Result<i32, Failure>;

impl Failure {
    /// These lines as they are, and exit code 1.
    pub(crate) fn says(text: impl Into<String>) -> Self {
        Self { code: 1, text: text.into() }
    }

    /// `NAME: error: TEXT`, each line with the prefix, and exit code 1.
    pub(crate) fn error(name: &str, text: &str) -> Self {
        Self::says(prefixed(name, "error", text))
    }

    /// The same with another exit code.
    #[must_use]
    pub(crate) fn with_code(self, code: i32) -> Self {
        Self { code, ..self }
    }

    /// A wrong option: glibc's message and where help is.
    pub(crate) fn usage(name: &str, message: &str, code: i32) -> Self {
        let hint = format!("\nTry \"{name} --help\" for more information");
        let hint = if message.contains(": error: ") { "" } else { &hint };
        Self { code, text: format!("{message}{hint}") }
    }

    /// What the daemon said, or why it could not be asked.
    pub(crate) fn client(name: &str, error: &ClientError) -> Self {
        Self::error(name, &error.to_string())
    }
}

/// Every line of a text with `NAME: KIND: ` before it.
pub(crate) fn prefixed(name: &str, kind: &str, text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("{name}: {kind}: {line}")).collect();
    lines.join("\n")
}

/// True where the daemon said that there is no such job, node or partition.
pub(crate) fn is_unknown(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused { status: 404, .. })
}

/// Slurm's own sentence for a refusal, which clients look for, where it has one.
pub(crate) fn slurm_sentence(error: &ApiError) -> Option<&'static str> {
    Some(match error.code.as_str() {
        "E_PARTITION_UNKNOWN" => "Invalid partition name specified",
        "E_ACCOUNT_UNKNOWN" | "E_ACCOUNT_DENIED" => {
            "Invalid account or account/partition combination specified"
        }
        "E_QOS_UNKNOWN" => "Invalid qos specification",
        "E_NODE_UNKNOWN" => "Invalid node name specified",
        "E_NEVER_FITS" | "E_IMPOSSIBLE" => "Requested node configuration is not available",
        "E_ARRAY_BAD" => "Invalid job array specification",
        "E_DEPENDENCY_BAD" | "E_DEPENDENCY_UNKNOWN" | "E_DEPENDENCY_CYCLE" => {
            "Job dependency problem"
        }
        "E_JOB_UNKNOWN" => "Invalid job id specified",
        "E_DENIED" => "Access/permission denied",
        _ => return None,
    })
}
