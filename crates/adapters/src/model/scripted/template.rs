//! Text with placeholders for earlier data: `{{ input }}`, `{{ result.calculator }}`, `{{ result[0] }}`.
//!
//! Parsed once, when the script is read, so that a misspelt placeholder is a fault of the file and not a strange
//! answer.

/// A text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScriptTemplate(Vec<ScriptPart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum ScriptPart {
    Text(String),
    Input,
    /// The last result of this tool.
    ResultOf(String),
    /// The result of the nth call, counted from 0.
    ResultAt(usize),
}

/// A result that a template refers to does not exist; names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missing(pub(super) String);

impl ScriptTemplate {
    /// # Errors
    /// With what is wrong with the text.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, inside)) = rest.split_once("{{") {
            let Some((place, after)) = inside.split_once("}}") else { return Err("`{{` has no `}}`".into()) };
            parts.push(ScriptPart::Text(before.to_owned()));
            parts.push(ScriptPart::parse(place.trim())?);
            rest = after;
        }
        parts.push(ScriptPart::Text(rest.to_owned()));
        parts.retain(|part| *part != ScriptPart::Text(String::new()));
        Ok(Self(parts))
    }

    /// The text with every placeholder filled. `results` are those of the calls so far, by alias, in the order of the
    /// calls.
    pub(super) fn fill(
        &self,
        input: &str,
        results: &[(&str, &str)],
        alias: impl Fn(&str) -> String,
    ) -> Result<String, Missing> {
        let mut text = String::new();
        for part in &self.0 {
            text.push_str(match part {
                ScriptPart::Text(text) => text,
                ScriptPart::Input => input,
                ScriptPart::ResultOf(tool) => {
                    let wanted = alias(tool);
                    let found = results.iter().rev().find(|(alias, _)| *alias == wanted);
                    found.map(|(_, content)| *content).ok_or_else(|| Missing(format!("`{tool}`")))?
                }
                ScriptPart::ResultAt(index) => {
                    results.get(*index).map(|(_, content)| *content).ok_or_else(|| Missing(format!("call {index}")))?
                }
            });
        }
        Ok(text)
    }
}

impl ScriptPart {
    fn parse(place: &str) -> Result<Self, String> {
        let unknown = || format!("`{{{{ {place} }}}}` is none of `input`, `result.<tool>` and `result[<number>]`");
        if place == "input" {
            return Ok(Self::Input);
        }
        let rest = place.strip_prefix("result").ok_or_else(unknown)?;
        if let Some(index) = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return index.trim().parse().map(Self::ResultAt).map_err(|_| unknown());
        }
        match rest.strip_prefix('.') {
            Some(tool) if !tool.is_empty() => Ok(Self::ResultOf(tool.to_owned())),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Result<&str, &str>) {
        let results = [("search", "one"), ("time", "noon"), ("search", "two")];
        let filled = ScriptTemplate::parse(text)
            .and_then(|template| template.fill("hello", &results, str::to_owned).map_err(|Missing(what)| what));
        assert_eq!(filled.as_deref().map_err(String::as_str), expect);
    }

    #[test]
    fn placeholders_are_filled() {
        check("no place", Ok("no place"));
        check("", Ok(""));
        check("{{ result.search }} at {{result.time}}", Ok("two at noon"));
        check("{{ result[0] }}, {{ result[2] }}", Ok("one, two"));
        check("you said {{ input }}", Ok("you said hello"));
        check("} and { are text", Ok("} and { are text"));
    }

    #[test]
    fn a_missing_result_is_an_error() {
        check("{{ result.mail }}", Err("`mail`"));
        check("{{ result[3] }}", Err("call 3"));
    }

    #[test]
    fn a_misspelt_placeholder_is_refused() {
        let unknown =
            |place: &str| format!("`{{{{ {place} }}}}` is none of `input`, `result.<tool>` and `result[<number>]`");
        check("{{ resul.search }}", Err(&unknown("resul.search")));
        check("{{ result }}", Err(&unknown("result")));
        check("{{ result. }}", Err(&unknown("result.")));
        check("{{ result[x] }}", Err(&unknown("result[x]")));
        check("{{ input", Err("`{{` has no `}}`"));
    }
}
