//! Cost bound of validation: how often a schema may visit the same value.
//!
//! References let a small schema say the same thing twice, and twice again below it: thirty lines that take a day to
//! validate. [`Graph`] counts, for each level of a value, how many subschemas may be applied to one place there.
//! [`Cost::allows`] rejects a value whose validation could take too long, before it begins. The count is an upper
//! bound: alternatives that fail early cost less.

use std::collections::HashMap;

use serde_json::Value;

use super::{error::SchemaFault, keyword::Reach};

/// Levels that are counted; deeper values are rejected by every parser.
pub(super) const LEVELS: usize = 65;
/// Maximum number of subschema applications in one validation.
const BUDGET: u64 = 20_000_000;
/// Below this count on every level, any value of the allowed size stays within the budget.
const HARMLESS: u64 = 100;
/// Maximum number of edges from subschemas to the next level, over the whole schema: counting must not take longer than
/// the validation that it bounds.
const MAX_EDGES: usize = 30_000;

/// The graph of subschemas.
#[derive(Debug, Default)]
pub(super) struct Graph<'a> {
    nodes: Vec<Vec<(Reach<'a>, usize)>>,
}

/// The part of a value that a subschema passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum ValuePart {
    Item,
    /// Any member of an object.
    Member,
    /// The member with one name, by the index of the name.
    Named(usize),
}

/// A part of a value, the subschema that it is passed on to, and how often.
#[derive(Clone, Copy, Debug)]
struct CostEdge {
    part: ValuePart,
    target: usize,
    count: u64,
}

/// The edges of all subschemas.
#[derive(Debug)]
struct CostEdges {
    /// For each subschema, the one whose edges it shares: usually itself.
    owners: Vec<usize>,
    edges: Vec<Vec<CostEdge>>,
}

/// Applications to one place, by its level.
#[derive(Clone, Debug, Default)]
pub(super) struct Cost {
    by_level: Vec<u64>,
    /// Whether no level could make a value of the allowed size too expensive.
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
        let order = self.innermost_first()?;
        let weights = self.weights(&order, vec![1; self.nodes.len()]);
        if weights.first().is_some_and(|weight| *weight > BUDGET / 1_000) {
            return Err(SchemaFault::TooCostly);
        }
        let by_level = by_level(weights, &self.edges(&order)?);
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
        // A schema that cannot be counted is rejected for that.
        let Ok(order) = self.innermost_first() else { return 0 };
        let Ok(edges) = self.edges(&order) else { return 0 };
        by_level(self.weights(&order, weights), &edges).into_iter().max().unwrap_or_default()
    }

    /// The weight of a subschema together with those that are applied to the same value.
    fn weights(&self, order: &[usize], mut weights: Vec<u64>) -> Vec<u64> {
        for &node in order {
            for &(reach, target) in &self.nodes[node] {
                if reach == Reach::Same {
                    weights[node] = weights[node].saturating_add(weights[target]);
                }
            }
        }
        weights
    }

    /// For each subschema: which parts of the value it passes on, to which subschemas, and how often.
    fn edges(&self, order: &[usize]) -> Result<CostEdges, SchemaFault> {
        let mut names: HashMap<&str, usize> = HashMap::new();
        let mut owners: Vec<usize> = (0..self.nodes.len()).collect();
        let mut edges: Vec<Vec<CostEdge>> = vec![Vec::new(); self.nodes.len()];
        let mut looked_at = 0;
        for &node in order {
            // A bare reference shares the edges of its target; most nodes of a recursive schema are such.
            if let [(Reach::Same, target)] = self.nodes[node].as_slice() {
                owners[node] = owners[*target];
                continue;
            }
            let mut own: HashMap<(ValuePart, usize), u64> = HashMap::new();
            for &(reach, target) in &self.nodes[node] {
                let part = match reach {
                    Reach::Nothing => continue,
                    Reach::AnyItem => ValuePart::Item,
                    Reach::AnyProperty => ValuePart::Member,
                    Reach::Property(name) => {
                        let next = names.len();
                        ValuePart::Named(*names.entry(name).or_insert(next))
                    }
                    Reach::Same => {
                        let passed_on = &edges[owners[target]];
                        for edge in passed_on {
                            add(own.entry((edge.part, edge.target)).or_insert(0), edge.count);
                        }
                        looked_at += passed_on.len();
                        continue;
                    }
                };
                looked_at += 1;
                add(own.entry((part, target)).or_insert(0), 1);
                if looked_at > MAX_EDGES {
                    return Err(SchemaFault::TooCostly);
                }
            }
            if looked_at > MAX_EDGES {
                return Err(SchemaFault::TooCostly);
            }
            let own = own.into_iter().map(|((part, target), count)| CostEdge { part, target, count });
            let mut own: Vec<CostEdge> = own.collect();
            own.sort_unstable_by_key(|edge| edge.part);
            edges[node] = own;
        }
        Ok(CostEdges { owners, edges })
    }

    /// Topological order: every subschema after those that are applied to the same value; fails if there is a cycle.
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

/// The total weight of the subschemas that may be applied to one place, for each level of a value.
fn by_level(weights: Vec<u64>, CostEdges { owners, edges }: &CostEdges) -> Vec<u64> {
    let mut by_level = Vec::with_capacity(LEVELS);
    let mut level = weights;
    // A schema without recursion ends early; a recursive one is counted down to the maximum depth of values.
    while by_level.len() < LEVELS && level.iter().any(|count| *count > 0) {
        let root = level.first().copied().unwrap_or(0);
        by_level.push(root);
        let heaviest: Vec<u64> = edges.iter().map(|edges| heaviest_part(edges, &level)).collect();
        let next: Vec<u64> = owners.iter().map(|owner| heaviest[*owner]).collect();
        if next == level {
            by_level.resize(LEVELS, root);
        }
        level = next;
    }
    by_level
}

/// The applications that one part of the value may get: an item, or the member with the most. The edges are sorted by
/// part.
fn heaviest_part(edges: &[CostEdge], level: &[u64]) -> u64 {
    let (mut items, mut any, mut heaviest) = (0_u64, 0_u64, 0_u64);
    let (mut part, mut of_part) = (ValuePart::Item, 0_u64);
    for edge in edges {
        let weight = edge.count.saturating_mul(level[edge.target]);
        match edge.part {
            ValuePart::Item => add(&mut items, weight),
            ValuePart::Member => add(&mut any, weight),
            named => {
                if named != part {
                    (part, of_part) = (named, 0);
                }
                add(&mut of_part, weight);
                heaviest = heaviest.max(of_part);
            }
        }
    }
    items.max(heaviest.saturating_add(any))
}

impl Cost {
    /// Whether `value` can be validated within the budget.
    pub(super) fn allows(&self, value: &Value) -> bool {
        self.harmless || self.of(value) <= BUDGET
    }

    /// The most applications to one place, on any level.
    pub(super) fn highest(&self) -> u64 {
        self.by_level.iter().copied().max().unwrap_or_default()
    }

    /// The maximum number of applications in a validation of `value`. Stops counting at the budget.
    pub(super) fn of(&self, value: &Value) -> u64 {
        let mut spent = 0_u64;
        let mut pending = vec![(value, 0)];
        while let Some((value, level)) = pending.pop() {
            add(&mut spent, self.by_level.get(level).copied().unwrap_or(0));
            if spent > BUDGET {
                break;
            }
            match value {
                Value::Array(items) => pending.extend(items.iter().map(|item| (item, level + 1))),
                Value::Object(members) => pending.extend(members.values().map(|member| (member, level + 1))),
                _ => {}
            }
        }
        spent
    }
}
