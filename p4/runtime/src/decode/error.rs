//! What can be wrong with an entry.

use thiserror::Error;
use tonic::Code;

/// Why a message is no entry of this pipeline. Each names where, what, and what
/// would be right.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum DecodeError {
    #[error("table_id {id:#010x}: this pipeline has no such table; read p4info for those it has")]
    UnknownTable { id: u32 },
    #[error("table_id {id:#010x}: an entry of {table} was expected")]
    OtherTable { table: &'static str, id: u32 },
    #[error("{table}: the default action is fixed by the program; is_default_action must be unset")]
    DefaultAction { table: &'static str },
    #[error("{table}: the program has no constant entries; is_const must be unset")]
    Const { table: &'static str },
    #[error("{table}: priority {priority}: must be 1 or more, the higher wins")]
    Priority { table: &'static str, priority: i32 },
    #[error(
        "{table}: priority {priority}: only tables with ternary or range fields have one, leave it 0"
    )]
    PriorityForbidden { table: &'static str, priority: i32 },
    #[error("{table}: idle_timeout_ns: this table has no idle timeout, leave it 0")]
    IdleTimeoutForbidden { table: &'static str },
    #[error("{table}: meter_config: this table has no meter, leave it out")]
    MeterForbidden { table: &'static str },
    #[error("{table}: {field}: {value} is negative")]
    Negative {
        table: &'static str,
        field: &'static str,
        value: i64,
    },
    #[error(
        "{table}: meter_config.eburst: the meter has two rates and no excess burst, leave it 0"
    )]
    ExcessBurst { table: &'static str },
    #[error("{table}: field {id}: no match given; to match everything leave the field out")]
    NoMatch { table: &'static str, id: u32 },
    #[error("{owner}: {id} is given twice")]
    DuplicateField { owner: String, id: u32 },
    #[error("{owner}: there is no field {id}; read p4info for those it has")]
    UnknownField { owner: String, id: u32 },
    #[error("{owner}: {field} (id {id}) is missing")]
    MissingField {
        owner: String,
        field: &'static str,
        id: u32,
    },
    #[error("{table}: {field}: a {found} match is given where {wanted} is needed")]
    MatchKind {
        table: &'static str,
        field: &'static str,
        wanted: &'static str,
        found: &'static str,
    },
    #[error("{owner}: {field}: the byte string is empty; zero is one zero byte")]
    Empty { owner: String, field: String },
    #[error("{owner}: {field}: {value} does not fit into {width} bits")]
    TooWide {
        owner: String,
        field: String,
        width: u32,
        value: String,
    },
    #[error("{table}: {field}: prefix length {prefix_len}: must be 0 to {width}")]
    PrefixLength {
        table: &'static str,
        field: &'static str,
        prefix_len: i32,
        width: u32,
    },
    #[error("{table}: {field}: the value has bits outside its mask or prefix; clear them")]
    StrayBits {
        table: &'static str,
        field: &'static str,
    },
    #[error("{table}: {field}: matches everything; leave the field out")]
    DontCare {
        table: &'static str,
        field: &'static str,
    },
    #[error("{table}: {field}: the range {low} to {high} is empty")]
    EmptyRange {
        table: &'static str,
        field: &'static str,
        low: u128,
        high: u128,
    },
    #[error("{table}: the entry has no action")]
    NoAction { table: &'static str },
    #[error("{table}: the table has no action profile; give the action itself")]
    ActionProfile { table: &'static str },
    #[error("{table}: action {id:#010x}: not one of this table's; read p4info for those it has")]
    UnknownAction { table: &'static str, id: u32 },
}

impl DecodeError {
    /// The canonical code the protocol asks for.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::UnknownTable { .. } => Code::NotFound,
            Self::TooWide { .. } => Code::OutOfRange,
            Self::Const { .. } | Self::DefaultAction { .. } => Code::PermissionDenied,
            _ => Code::InvalidArgument,
        }
    }
}
