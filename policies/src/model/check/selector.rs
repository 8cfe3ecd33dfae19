//! Selectors.

use std::collections::BTreeSet;

use super::{At, LIMITS};
use crate::document::{self, Operator};
use crate::model::{Selector, Term, Test, VpcName};
use crate::suggest::quote;

impl<'a> At<'_, 'a> {
    /// A selector of ports of the object's own VPC. `empty`: what to do instead
    /// of writing one that chooses by nothing.
    pub(super) fn selector(
        &mut self,
        path: &str,
        vpc: &VpcName,
        spec: &'a document::Selector,
        empty: &str,
    ) -> Option<Selector> {
        if !spec.vpc.is_empty() {
            let message = "only a peer's selector looks at another VPC";
            self.problem(format!("{path}.vpc"), message, "remove it");
            return None;
        }
        self.terms(path, vpc, spec, empty)
    }

    /// A selector of ports of `vpc`.
    pub(super) fn terms(
        &mut self,
        path: &str,
        vpc: &VpcName,
        spec: &'a document::Selector,
        empty: &str,
    ) -> Option<Selector> {
        let document::Selector {
            match_labels,
            match_expressions,
            vpc: _,
        } = spec;
        if match_labels.is_empty() && match_expressions.is_empty() {
            self.problem(path, "chooses by nothing", empty);
            return None;
        }
        let field = format!("{path}.matchLabels");
        if match_labels.len() > LIMITS.labels_per_port {
            let most = LIMITS.labels_per_port;
            let message = format!("{} labels are more than {most}", match_labels.len());
            self.problem(field, message, "no port has so many; keep fewer");
            return None;
        }
        let mut terms = BTreeSet::new();
        for (key, value) in match_labels {
            if key.is_empty() {
                self.problem(&field, "a label has no key", "write key: value");
            }
            self.text(&field, key);
            self.text(&field, value);
            let test = Test::In(BTreeSet::from([value.clone()]));
            let key = key.clone();
            terms.insert(Term { key, test });
        }
        let list = format!("{path}.matchExpressions");
        let mut sound = true;
        for (i, expression) in self
            .within(&list, match_expressions, LIMITS.expressions)
            .iter()
            .enumerate()
        {
            match self.expression(&format!("{list}[{i}]"), expression) {
                Some(term) => {
                    terms.insert(term);
                }
                None => sound = false,
            }
        }
        if !sound {
            return None;
        }
        let selector = Selector::new(vpc.clone(), terms);
        if let Some(key) = selector.contradiction() {
            let key = quote(key);
            let message =
                format!("no port can be chosen: what is asked of label {key} excludes itself");
            self.problem(path, message, "remove one of its conditions");
            return None;
        }
        Some(selector)
    }

    fn expression(&mut self, path: &str, spec: &'a document::Expression) -> Option<Term> {
        let document::Expression {
            key,
            operator,
            values,
        } = spec;
        let field = |name: &str| format!("{path}.{name}");
        if key.is_empty() {
            self.problem(field("key"), "is missing", "name a label");
        }
        self.text(&field("key"), key);
        let list = field("values");
        let mut found = BTreeSet::new();
        for (i, value) in self.within(&list, values, LIMITS.values).iter().enumerate() {
            let field = format!("{list}[{i}]");
            self.text(&field, value);
            if !found.insert(value.clone()) {
                let message = format!("{} is given twice", quote(value));
                self.problem(field, message, "give each value once");
            }
        }
        let test = match operator {
            None => {
                let hint = "write IN, NOT_IN, EXISTS or DOES_NOT_EXIST";
                self.problem(field("operator"), "is missing", hint);
                return None;
            }
            Some(Operator::In) if found.is_empty() => {
                let message = "names no value, so no port would match";
                self.problem(list, message, "give values, or write operator: EXISTS");
                return None;
            }
            Some(Operator::NotIn) if found.is_empty() => {
                let message = "names no value, so every port would match";
                let hint = "give values, or write operator: DOES_NOT_EXIST";
                self.problem(list, message, hint);
                return None;
            }
            Some(operator @ (Operator::Exists | Operator::DoesNotExist)) if !found.is_empty() => {
                let message = format!("{} looks at no values", operator.word());
                let hint = if *operator == Operator::Exists {
                    "did you mean operator: IN?"
                } else {
                    "did you mean operator: NOT_IN?"
                };
                self.problem(list, message, hint);
                return None;
            }
            Some(Operator::In) => Test::In(found),
            Some(Operator::NotIn) => Test::NotIn(found),
            Some(Operator::Exists) => Test::Exists,
            Some(Operator::DoesNotExist) => Test::DoesNotExist,
        };
        let key = key.clone();
        Some(Term { key, test })
    }
}
