//! How often a schema may look at the same value.
//!
//! References let a small schema say the same thing twice, and twice again below it: thirty lines
//! that take a day to check. [`Graph`] counts, for each level of a value, how many subschemas may be
//! applied to one place there. [`Cost::allows`] refuses a value whose check could take too long,
//! before it is begun. The count is an upper bound: alternatives that fail early cost less.

use std::collections::HashMap;

use super::{error::SchemaFault, keyword::Reach};
use crate::json::Tree;

/// Levels that are counted; a deeper value is refused by everyone who reads one.
pub(super) const LEVELS: usize = 65;
/// Applications of subschemas in one check.
const BUDGET: u64 = 20_000_000;
/// Below this count on every level, any value of the size that is taken stays within the budget.
const HARMLESS: u64 = 100;
/// Distinct ways from one subschema to the next level, over the whole schema.
const MAX_WAYS: usize = 100_000;

/// Subschemas and what leads from one to the next.
#[derive(Debug, Default)]
pub(super) struct Graph<'a> {
    nodes: Vec<Vec<(Reach<'a>, usize)>>,
}

/// Applications to one place, by its level.
#[derive(Clone, Debug, Default)]
pub(super) struct Cost {
    by_level: Vec<u64>,
    /// No level could make a value of the size that is taken too costly.
    harmless: bool,
}

impl<'a> Graph<'a> {
    pub(super) fn add(&mut self) -> usize {
        self.nodes.push(Vec::new());
        self.nodes.len() - 1
    }

    pub(super) fn connect(&mut self, from: usize, reach: Reach<'a>, to: usize) {
        self.nodes[from].push((reach, to));
    }

    /// Counts from node 0, the root.
    pub(super) fn cost(&self) -> Result<Cost, SchemaFault> {
        let by_level = self.by_level(vec![1; self.nodes.len()])?;
        if by_level.first().is_some_and(|weight| *weight > BUDGET / 1_000) {
            return Err(SchemaFault::TooCostly);
        }
        let harmless = by_level.iter().all(|count| *count <= HARMLESS);
        Ok(Cost { by_level, harmless })
    }

    /// How many of the marked subschemas may be applied to one and the same value.
    pub(super) fn most_at_one_place(&self, marked: &[usize]) -> u64 {
        if marked.is_empty() {
            return 0;
        }
        let mut weights = vec![0; self.nodes.len()];
        for node in marked {
            weights[*node] = 1;
        }
        // A schema that cannot be counted is refused for that.
        self.by_level(weights).unwrap_or_default().into_iter().max().unwrap_or_default()
    }

    /// What the subschemas that may be applied to one place weigh together, for each level of a value.
    fn by_level(&self, mut weights: Vec<u64>) -> Result<Vec<u64>, SchemaFault> {
        let order = self.innermost_first()?;
        // For each subschema: which parts of the value it passes on, to whom, and how often.
        let mut ways: Vec<HashMap<(Reach<'a>, usize), u64>> = vec![HashMap::new(); self.nodes.len()];
        let mut total = 0;
        for node in order {
            let mut own = HashMap::new();
            for &(reach, target) in &self.nodes[node] {
                if reach == Reach::Same {
                    weights[node] = weights[node].saturating_add(weights[target]);
                    for (&way, &count) in &ways[target] {
                        add(own.entry(way).or_insert(0), count);
                    }
                } else {
                    add(own.entry((reach, target)).or_insert(0), 1);
                }
            }
            total += own.len();
            if total > MAX_WAYS {
                return Err(SchemaFault::TooCostly);
            }
            ways[node] = own;
        }
        let mut by_level = Vec::with_capacity(LEVELS);
        let mut level = weights;
        // A schema without recursion ends early; one with it is counted as deep as values are taken.
        while by_level.len() < LEVELS && level.iter().any(|count| *count > 0) {
            by_level.push(level.first().copied().unwrap_or(0));
            level = ways.iter().map(|ways| heaviest_part(ways, &level)).collect();
        }
        Ok(by_level)
    }

    /// Every subschema after those that are applied to the same value; fails if there is no such order.
    fn innermost_first(&self) -> Result<Vec<usize>, SchemaFault> {
        let same = |node: usize| self.nodes[node].iter().filter(|(reach, _)| *reach == Reach::Same).map(|(_, to)| *to);
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut open: Vec<usize> = (0..self.nodes.len()).map(|node| same(node).count()).collect();
        for node in 0..self.nodes.len() {
            for target in same(node) {
                users[target].push(node);
            }
        }
        let mut ready: Vec<usize> = (0..self.nodes.len()).filter(|node| open[*node] == 0).collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(node) = ready.pop() {
            order.push(node);
            for &user in &users[node] {
                open[user] -= 1;
                if open[user] == 0 {
                    ready.push(user);
                }
            }
        }
        if order.len() == self.nodes.len() { Ok(order) } else { Err(SchemaFault::EndlessReference) }
    }
}

fn add(count: &mut u64, more: u64) {
    *count = count.saturating_add(more);
}

/// The applications that one part of the value may get: an item, or the member with the most.
fn heaviest_part(ways: &HashMap<(Reach<'_>, usize), u64>, level: &[u64]) -> u64 {
    let (mut items, mut any) = (0_u64, 0_u64);
    let mut named: HashMap<&str, u64> = HashMap::new();
    for (&(reach, target), &count) in ways {
        let weight = count.saturating_mul(level[target]);
        match reach {
            Reach::AnyItem => add(&mut items, weight),
            Reach::AnyProperty => add(&mut any, weight),
            Reach::Property(name) => add(named.entry(name).or_insert(0), weight),
            Reach::Same | Reach::Nothing => {}
        }
    }
    let member = named.into_values().max().unwrap_or(0).saturating_add(any);
    items.max(member)
}

impl Cost {
    /// Whether `value` can be checked in reasonable time.
    pub(super) fn allows(&self, value: &Tree<'_>) -> bool {
        self.harmless || self.of(value) <= BUDGET
    }

    /// The most applications to one place, on any level.
    pub(super) fn highest(&self) -> u64 {
        self.by_level.iter().copied().max().unwrap_or_default()
    }

    /// How many applications a check of `value` takes at most. Counts no further than the budget.
    pub(super) fn of(&self, value: &Tree<'_>) -> u64 {
        let mut spent = 0_u64;
        let mut pending = vec![(value, 0)];
        while let Some((value, level)) = pending.pop() {
            add(&mut spent, self.by_level.get(level).copied().unwrap_or(0));
            if spent > BUDGET {
                break;
            }
            match value {
                Tree::Array(items) => pending.extend(items.iter().map(|item| (item, level + 1))),
                Tree::Object(members) => pending.extend(members.iter().map(|member| (&member.value, level + 1))),
                _ => {}
            }
        }
        spent
    }
}
