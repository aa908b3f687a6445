//! Selection by labels, with the operators of Kubernetes.
//!
//! Everything that a selector says must hold; one that says nothing selects everything.

use std::collections::BTreeMap;

/// A selector of labels: Kubernetes' `LabelSelector`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// Labels with exactly these values.
    pub match_labels: BTreeMap<String, String>,
    pub match_expressions: Vec<LabelExpression>,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelExpression {
    pub key: String,
    pub requirement: LabelRequirement,
}

/// What is required of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelRequirement {
    In(Vec<String>),
    /// Also holds where the label is absent.
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl LabelSelector {
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|expression| expression.matches(labels))
    }
}

impl LabelExpression {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match &self.requirement {
            LabelRequirement::In(values) => value.is_some_and(|value| values.contains(value)),
            LabelRequirement::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            LabelRequirement::Exists => value.is_some(),
            LabelRequirement::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(labels: &[(&str, &str)], requirement: LabelRequirement, expect: bool) {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let match_expressions = vec![LabelExpression { key: "tier".to_owned(), requirement: requirement.clone() }];
        let selector = LabelSelector { match_labels: BTreeMap::new(), match_expressions };
        assert_eq!(selector.matches(&labels), expect, "{labels:?} {requirement:?}");
    }

    #[test]
    fn every_operator() {
        let gold = || vec!["gold".to_owned(), "silver".to_owned()];
        for (labels, has_gold, has_any) in [
            (&[("tier", "gold")][..], true, true),
            (&[("tier", "tin")], false, true),
            (&[("other", "gold")], false, false),
        ] {
            check(labels, LabelRequirement::In(gold()), has_gold);
            check(labels, LabelRequirement::NotIn(gold()), !has_gold);
            check(labels, LabelRequirement::Exists, has_any);
            check(labels, LabelRequirement::DoesNotExist, !has_any);
        }
    }

    #[test]
    fn everything_must_hold() {
        let labels = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let selector = LabelSelector {
            match_labels: labels(&[("team", "red")]),
            match_expressions: vec![LabelExpression {
                key: "old".to_owned(),
                requirement: LabelRequirement::DoesNotExist,
            }],
        };
        assert!(selector.matches(&labels(&[("team", "red"), ("x", "y")])));
        assert!(!selector.matches(&labels(&[("team", "red"), ("old", "")])));
        assert!(!selector.matches(&labels(&[("team", "blue")])));
        assert!(LabelSelector::default().matches(&labels(&[])));
    }
}
