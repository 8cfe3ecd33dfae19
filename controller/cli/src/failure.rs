//! Everything that ends a command, and its exit code.

use std::process::ExitCode;
use std::time::Duration;

use penstock_api::client::ConnectError;
use penstock_identity::CredentialsError;
use penstock_policies::document::LoadError;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::command::CertsError;

/// Exit code where nothing else fits.
pub(crate) const FAILED: u8 = 3;

/// Why a command did not do what it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Documents have problems, which have been printed.
    #[error("{0} problem{s} found", s = if *.0 == 1 { "" } else { "s" })]
    Problems(usize),
    /// What NICs would do is not what documents say; it has been printed.
    #[error("not proved")]
    NotProved,
    /// Documents that are to be compared have problems, which have been printed.
    #[error("{0} problem{s} found, so nothing was compared", s = if *.0 == 1 { "" } else { "s" })]
    NotComparable(usize),
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Documents cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// There is no server.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// TLS files that the command line names cannot serve.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// Certificates cannot be issued.
    #[error(transparent)]
    Certs(#[from] CertsError),
    /// The server said no, or nothing.
    #[error("{}", told(.0))]
    Server(#[from] Status),
    /// Not everything is programmed.
    #[error("{pending} of {total} not programmed within {timeout:?}")]
    Pending {
        pending: usize,
        total: usize,
        timeout: Duration,
    },
    /// The result cannot be printed.
    #[error("cannot print: {0}")]
    Print(std::io::Error),
    /// A message that this program does not understand.
    #[error("cannot show the server's answer: {0}; is this penstock older than the server?")]
    Answer(String),
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Problems(_) | Self::NotProved => 1,
            Self::NotComparable(_)
            | Self::Usage(_)
            | Self::Load(_)
            | Self::Credentials(_)
            | Self::Certs(_) => 2,
            Self::Connect(ConnectError::Address { .. } | ConnectError::Scheme { .. }) => 2,
            Self::Server(status) => match status.code() {
                Code::InvalidArgument | Code::OutOfRange => 1,
                Code::NotFound
                | Code::AlreadyExists
                | Code::Aborted
                | Code::FailedPrecondition
                | Code::PermissionDenied
                | Code::Unauthenticated
                | Code::ResourceExhausted => 4,
                _ => FAILED,
            },
            Self::Connect(_) | Self::Print(_) | Self::Answer(_) => FAILED,
            Self::Pending { .. } => 5,
        }
    }

    /// Tells it, and gives the exit code.
    pub(crate) fn tell(&self) -> ExitCode {
        self.tell_as(self.code())
    }

    /// Tells it, and gives this exit code.
    pub(crate) fn tell_as(&self, code: u8) -> ExitCode {
        // Whoever closed our output has what they wanted.
        if let Self::Print(error) = self
            && error.kind() == std::io::ErrorKind::BrokenPipe
        {
            return ExitCode::SUCCESS;
        }
        eprintln!("penstock: {self}");
        ExitCode::from(code)
    }
}

fn told(status: &Status) -> String {
    let what = match status.code() {
        Code::Unavailable => "the server is not available",
        Code::DeadlineExceeded | Code::Cancelled => "the server did not answer in time",
        Code::Internal | Code::Unknown | Code::DataLoss => "the server failed",
        Code::Unimplemented => "the server does not know this call",
        Code::FailedPrecondition => return referred(status),
        // A server that speaks TLS says so in an error of the connection.
        _ => return with_causes(status),
    };
    format!("{what}: {}", with_causes(status))
}

/// The message, and the innermost cause where it came from this side.
fn with_causes(status: &Status) -> String {
    let mut innermost = std::error::Error::source(status);
    while let Some(cause) = innermost.and_then(std::error::Error::source) {
        innermost = Some(cause);
    }
    match innermost {
        Some(cause) => format!("{}: {cause}", status.message()),
        None => status.message().to_owned(),
    }
}

/// The message, and everything that stands in the way.
fn referred(status: &Status) -> String {
    let mut told = status.message().to_owned();
    let details = status.get_details_precondition_failure();
    for violation in details.iter().flat_map(|d| &d.violations) {
        told.push_str(&format!(
            "\n  {}: {}",
            violation.subject, violation.description
        ));
    }
    told
}
