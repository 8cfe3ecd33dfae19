//! What a change may close: never less than it does, and no more than it must.

mod cases;
pub(crate) mod random;

use penstock_rules::Ruleset;
use penstock_rules::model::Policy;

fn compile(policy: &Policy) -> Ruleset {
    Ruleset::compile(policy.clone()).expect("a sound policy")
}
