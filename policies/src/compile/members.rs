//! Who is in which group.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use penstock_rules::model as rules;

use super::lists::Lists;
use super::{CompileError, found, id, vni};
use crate::anonymous::Anonymous;
use crate::ids::Ids;
use crate::model::{GroupName, Model, Port, PortName, Selector, VpcName};

/// Longest name of a group that the data plane shows; names of declared ones are shorter.
const LONGEST: usize = 255;

/// Groups and what chooses their members.
type Chosen<'a> = Vec<(u32, &'a Selector)>;

/// Some groups, to be asked for the members among ports.
pub(super) struct Members<'a> {
    model: &'a Model,
    /// Declared groups, by name.
    named: BTreeMap<&'a GroupName, u32>,
    /// Groups of one port.
    single: BTreeMap<&'a PortName, u32>,
    /// Selectors that ask for a label's value, by VPC, key and value.
    by_label: HashMap<(&'a VpcName, &'a str, &'a str), Chosen<'a>>,
    /// Other selectors, by VPC.
    others: HashMap<&'a VpcName, Chosen<'a>>,
    /// What the data plane calls groups without a resource.
    texts: BTreeMap<u32, (&'a str, VpcName)>,
}

impl<'a> Members<'a> {
    /// The groups that some lists speak of.
    pub(super) fn new(model: &'a Model, ids: &Ids, lists: &'a Lists) -> Result<Self, CompileError> {
        let mut members = Self {
            model,
            named: BTreeMap::new(),
            single: BTreeMap::new(),
            by_label: HashMap::new(),
            others: HashMap::new(),
            texts: BTreeMap::new(),
        };
        for name in &lists.groups {
            let number = id(&ids.groups, name)?;
            members.named.insert(name, number);
            let group = found(model.groups.get(name), name.as_str())?;
            if let Some(selector) = &group.selector {
                members.selector(number, selector);
            }
        }
        for (text, group) in &lists.anonymous {
            let number = id(&ids.anonymous, text)?;
            let vpc = match group {
                Anonymous::Selector(selector) => {
                    members.selector(number, selector);
                    selector.vpc().clone()
                }
                Anonymous::Port(port) => {
                    members.single.insert(port, number);
                    port.vpc()
                }
            };
            members.texts.insert(number, (text, vpc));
        }
        Ok(members)
    }

    fn selector(&mut self, number: u32, selector: &'a Selector) {
        let vpc = selector.vpc();
        match selector.anchor() {
            Some((key, values)) => {
                for value in values {
                    let place = self.by_label.entry((vpc, key, value)).or_default();
                    place.push((number, selector));
                }
            }
            None => self.others.entry(vpc).or_default().push((number, selector)),
        }
    }

    /// The groups that a port is a member of, ascending.
    pub(super) fn of(&self, name: &PortName, vpc: &VpcName, port: &Port) -> Vec<u32> {
        let named = port.groups.iter().filter_map(|group| self.named.get(group));
        let mut found: BTreeSet<u32> = named.chain(self.single.get(name)).copied().collect();
        let labels = port.labels.iter();
        let by_label = labels
            .filter_map(|(key, value)| self.by_label.get(&(vpc, key.as_str(), value.as_str())));
        for (number, selector) in by_label.chain(self.others.get(vpc)).flatten() {
            if selector.matches(&port.labels) {
                found.insert(*number);
            }
        }
        found.into_iter().collect()
    }

    /// The groups themselves.
    pub(super) fn groups(&self) -> Result<BTreeMap<u32, rules::Group>, CompileError> {
        let mut groups = BTreeMap::new();
        for (name, number) in &self.named {
            let group = rules::Group {
                name: name.to_string(),
                vni: vni(self.model, &name.vpc())?,
            };
            groups.insert(*number, group);
        }
        for (number, (text, vpc)) in &self.texts {
            let group = rules::Group {
                name: shortened(text),
                vni: vni(self.model, vpc)?,
            };
            groups.insert(*number, group);
        }
        Ok(groups)
    }
}

fn shortened(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let end = (0..=LONGEST - 3)
        .rev()
        .find(|end| text.is_char_boundary(*end));
    format!("{}...", text.get(..end.unwrap_or(0)).unwrap_or_default())
}
