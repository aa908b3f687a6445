//! Teams: how their members take turns, as data and as a pure function.
//!
//! A team has no state but the journal of its query: every turn of a member is a call, and [`TeamPlan::next`] decides from
//! the calls so far which one follows. So a team continues after a crash where it was.

use serde::{Deserialize, Serialize};

/// How many turns a team without `maxTurns` takes at most.
pub const MAX_TURNS: u32 = 100;

/// The definition of a team as a query freezes it. Members are named by the tools of the query's toolset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TeamPlan {
    pub members: Vec<String>,
    pub strategy: Strategy,
    /// After this many turns of members the team has its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// The edges of a graph, or those that a selector may choose from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<Edge>,
    /// The template of what a selector is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector_prompt: Option<String>,
    /// What each member does, for the selector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
}

/// How a team chooses its next member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Each member once, in order.
    Sequential,
    /// In order, again and again: ARK's `round-robin`, and `sequential` with `loops`.
    RoundRobin,
    /// Along the edges, from the first member.
    Graph,
    /// A model chooses.
    Selector,
}

/// An edge of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    pub from: String,
    pub to: String,
}

/// What a team does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TeamStep<'a> {
    /// The turn of this member.
    Member(&'a str),
    /// A model chooses one of these.
    Choose(Vec<&'a str>),
    /// The last answer is that of the team.
    Done,
}

impl TeamPlan {
    /// What follows after the turns of these members.
    #[must_use]
    pub fn next(&self, spoken: &[&str]) -> TeamStep<'_> {
        let limit = self.max_turns.unwrap_or(MAX_TURNS) as usize;
        let (Some(first), false) = (self.members.first(), spoken.len() >= limit) else { return TeamStep::Done };
        let last = spoken.last();
        match self.strategy {
            Strategy::Sequential => match self.members.get(spoken.len()) {
                Some(member) => TeamStep::Member(member),
                None => TeamStep::Done,
            },
            Strategy::RoundRobin => TeamStep::Member(&self.members[spoken.len() % self.members.len()]),
            Strategy::Graph => match last {
                None => TeamStep::Member(first),
                Some(last) => {
                    let edge = self.edges.iter().find(|edge| edge.from == *last);
                    edge.map_or(TeamStep::Done, |edge| TeamStep::Member(&edge.to))
                }
            },
            Strategy::Selector => {
                let choices: Vec<&str> = match last {
                    Some(last) if !self.edges.is_empty() => {
                        self.edges.iter().filter(|edge| edge.from == *last).map(|edge| edge.to.as_str()).collect()
                    }
                    None if !self.edges.is_empty() => vec![first],
                    _ => self.members.iter().map(String::as_str).collect(),
                };
                match choices[..] {
                    [] => TeamStep::Done,
                    // There is nothing to choose.
                    [only] => TeamStep::Member(only),
                    _ => TeamStep::Choose(choices),
                }
            }
        }
    }

    /// The member that a selector has named: its whole answer, or the only one of the choices that it mentions.
    #[must_use]
    pub fn chosen<'a>(answer: &str, choices: &[&'a str]) -> Option<&'a str> {
        let answer = answer.trim().trim_matches(['"', '`', '\'', '.']);
        if let Some(exact) = choices.iter().find(|choice| choice.eq_ignore_ascii_case(answer)) {
            return Some(exact);
        }
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        let mut words = answer.split(|letter| !is_part(letter)).map(|word| word.trim_matches('.'));
        let mut named = words.by_ref().filter_map(|word| choices.iter().find(|choice| **choice == word));
        let first = named.next()?;
        named.all(|other| other == first).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(strategy: Strategy, max_turns: Option<u32>, edges: &[(&str, &str)]) -> TeamPlan {
        let edges = edges.iter().map(|(from, to)| Edge { from: (*from).into(), to: (*to).into() }).collect();
        let members = ["a", "b", "c"].map(str::to_owned).to_vec();
        TeamPlan { members, strategy, max_turns, edges, selector_prompt: None, roles: Vec::new() }
    }

    /// The members that speak, where a selector always chooses the last choice.
    fn order(plan: &TeamPlan) -> String {
        let mut spoken = Vec::new();
        loop {
            match plan.next(&spoken) {
                TeamStep::Member(member) => spoken.push(member),
                TeamStep::Choose(choices) => spoken.extend(choices.last()),
                TeamStep::Done => return spoken.concat(),
            }
        }
    }

    #[track_caller]
    fn check(strategy: Strategy, max_turns: Option<u32>, edges: &[(&str, &str)], expect: &str) {
        assert_eq!(order(&plan(strategy, max_turns, edges)), expect);
    }

    #[test]
    fn members_take_turns_by_the_strategy() {
        check(Strategy::Sequential, None, &[], "abc");
        check(Strategy::RoundRobin, Some(5), &[], "abcab");
        check(Strategy::Graph, Some(9), &[("a", "c"), ("c", "b")], "acb");
        check(Strategy::Graph, Some(4), &[("a", "b"), ("b", "a")], "abab");
        check(Strategy::Selector, Some(2), &[], "cc");
        check(Strategy::Selector, Some(9), &[("a", "b"), ("a", "c"), ("c", "b")], "acb");
        assert_eq!(order(&plan(Strategy::RoundRobin, None, &[])).len(), MAX_TURNS as usize);
    }

    #[test]
    fn a_selector_names_one_member() {
        let choices = ["writer", "re-searcher"];
        assert_eq!(TeamPlan::chosen(" Writer.\n", &choices), Some("writer"));
        assert_eq!(TeamPlan::chosen("The next one is `re-searcher`.", &choices), Some("re-searcher"));
        assert_eq!(TeamPlan::chosen("writer or re-searcher", &choices), None);
        assert_eq!(TeamPlan::chosen("the copywriter", &choices), None);
    }
}
