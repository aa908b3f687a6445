//! Selection by labels, with the operators of Kubernetes.
//!
//! Everything that a selector says must hold; one that says nothing selects everything.

use std::collections::BTreeMap;

use crate::text::clip;

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

/// Why a text is not a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a requirement: write `key=value`, `key!=value`, `key in (a, b)`, `key notin (a, b)`, `key` or `!key`"
)]
pub struct SelectorFault(String);

impl LabelSelector {
    /// Reads the text form, as `kubectl get -l` takes it: requirements with commas between them.
    ///
    /// # Errors
    /// If a requirement cannot be read.
    pub fn parse(text: &str) -> Result<Self, SelectorFault> {
        let mut selector = Self::default();
        for requirement in requirements(text) {
            let requirement = requirement.trim();
            let fault = || SelectorFault(clip(requirement, 128));
            let (key, requirement) = read_requirement(requirement).ok_or_else(fault)?;
            match requirement {
                // Two values for one key select nothing, which only expressions can say.
                LabelRequirement::In(values) if values.len() == 1 && !selector.match_labels.contains_key(key) => {
                    selector.match_labels.extend(values.into_iter().map(|value| (key.to_owned(), value)));
                }
                requirement => {
                    selector.match_expressions.push(LabelExpression { key: key.to_owned(), requirement });
                }
            }
        }
        Ok(selector)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }
}

/// The parts between commas that are not in parentheses.
fn requirements(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    text.split(move |letter| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        letter == ',' && depth == 0
    })
}

fn read_requirement(text: &str) -> Option<(&str, LabelRequirement)> {
    if let Some(key) = text.strip_prefix('!') {
        return Some((read_word(key)?, LabelRequirement::DoesNotExist));
    }
    if let Some((rest, values)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let (key, operator) = rest.trim().rsplit_once(char::is_whitespace)?;
        let values = values.split(',').map(|value| read_value(value).map(str::to_owned)).collect::<Option<_>>()?;
        let requirement = match operator {
            "in" => LabelRequirement::In(values),
            "notin" => LabelRequirement::NotIn(values),
            _ => return None,
        };
        return Some((read_word(key)?, requirement));
    }
    if let Some((key, value)) = text.split_once("!=") {
        return Some((read_word(key)?, LabelRequirement::NotIn(vec![read_value(value)?.to_owned()])));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Some((read_word(key)?, LabelRequirement::In(vec![read_value(value)?.to_owned()])));
    }
    Some((read_word(text)?, LabelRequirement::Exists))
}

/// A key: not empty, and without the characters of the grammar.
fn read_word(text: &str) -> Option<&str> {
    read_value(text).filter(|text| !text.is_empty() && !text.contains(char::is_whitespace))
}

/// A value, which may be empty.
fn read_value(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.contains(['=', '!', '(', ')', ',']))
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

    #[track_caller]
    fn check_text(text: &str, expect: &[(&str, Option<LabelRequirement>)]) {
        let read = LabelSelector::parse(text).unwrap();
        let equal = read.match_labels.iter().map(|(key, value)| (format!("{key}={value}"), None));
        let others = read.match_expressions.iter().map(|found| (found.key.clone(), Some(found.requirement.clone())));
        let expect: Vec<_> = expect.iter().map(|(key, needed)| ((*key).to_owned(), needed.clone())).collect();
        assert_eq!(equal.chain(others).collect::<Vec<_>>(), expect, "{text}");
    }

    #[test]
    fn every_form_of_the_text_is_read() {
        let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        check_text("team=red", &[("team=red", None)]);
        check_text(" team == red , n8n.io/run=7 ", &[("n8n.io/run=7", None), ("team=red", None)]);
        check_text("team!=red", &[("team", Some(LabelRequirement::NotIn(values(&["red"]))))]);
        check_text("team in (red, blue)", &[("team", Some(LabelRequirement::In(values(&["red", "blue"]))))]);
        check_text("team in (red)", &[("team=red", None)]);
        check_text(
            "a=1,team notin (red,)",
            &[("a=1", None), ("team", Some(LabelRequirement::NotIn(values(&["red", ""]))))],
        );
        check_text(
            "team,!old",
            &[("team", Some(LabelRequirement::Exists)), ("old", Some(LabelRequirement::DoesNotExist))],
        );
        check_text("team=", &[("team=", None)]);
        check_text("a=1,a=2", &[("a=1", None), ("a", Some(LabelRequirement::In(values(&["2"]))))]);
        for text in ["", ",", "a=1,", "=red", "a b", "a=b=c", "a in red", "a of (b)", "!", "a in (b", "a in b)", "(a)"]
        {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
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
