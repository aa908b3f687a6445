//! Evaluations on the wire, in ARK's spelling.

use std::collections::BTreeMap;

use bosun_core::{
    Head, Transcript,
    transcript::{Ending, Message},
};
use bosun_engine::store::ListedQueries;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    judge::{JudgedTexts, Verdict},
    reading::{Asked, AskedEvaluator, EDGE_NOTE, NamedText},
};
use crate::{
    ark::{
        answering::convert,
        duration,
        wire::{List, TokenUsage},
    },
    asking::list::beginning_and_end,
};

/// The annotation with why the judge gave its score.
const REASONING: &str = "evaluation.metadata/reasoning";

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Evaluation {
    name: String,
    namespace: String,
    /// The query that the judge answers has the same name.
    query_name: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<EvaluationSpec>,
    metadata: EvaluationMetadata,
    creation_timestamp: String,
    status: EvaluationStatus,
    token_usage: TokenUsage,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct EvaluationSpec {
    #[serde(rename = "type")]
    kind: String,
    config: Value,
    evaluator: ShownEvaluator,
    timeout: String,
    ttl: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ShownEvaluator {
    name: String,
    parameters: Vec<NamedText>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
struct EvaluationMetadata {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EvaluationStatus {
    /// `pending`, `running`, `done`, `error` or `canceled`.
    phase: &'static str,
    /// Why the judge gave its score, or why there is none.
    message: String,
    /// From `0` to `1`, as text: ARK's clients parse it.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<String>,
    /// Whether the score is at least the wanted one.
    #[serde(skip_serializing_if = "Option::is_none")]
    passed: Option<bool>,
    token_usage: TokenUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<String>,
}

impl Evaluation {
    /// Its state alone, for a caller that may not read it.
    pub(super) fn brief(self) -> Self {
        let status = EvaluationStatus { message: String::new(), score: None, passed: None, ..self.status };
        Self { kind: None, spec: None, metadata: EvaluationMetadata::default(), warnings: Vec::new(), status, ..self }
    }
}

/// An evaluation, from the query that it is.
pub(super) fn evaluation(head: &Head, transcript: &Transcript, warnings: &[String]) -> Evaluation {
    let spec = &transcript.spec;
    let asked = Asked::of(&spec.annotations);
    let verdict = transcript.output().and_then(Verdict::read);
    let min_score = asked.as_ref().map(|asked| asked.min_score);
    let mut metadata = EvaluationMetadata { labels: head.labels(spec).clone(), annotations: BTreeMap::new() };
    if let Some(verdict) = &verdict {
        metadata.annotations.insert(REASONING.to_owned(), verdict.reasoning.clone());
    }
    let mut all = spec.warnings.clone();
    all.extend(warnings.iter().filter(|warning| !spec.warnings.contains(warning)).cloned());
    Evaluation {
        name: head.name.to_string(),
        namespace: head.namespace.to_string(),
        query_name: head.name.to_string(),
        kind: asked.as_ref().map(|asked| asked.kind.clone()),
        spec: asked.map(|asked| EvaluationSpec {
            kind: asked.kind,
            config: config(transcript, asked.query_ref),
            evaluator: {
                let AskedEvaluator { name, parameters } = asked.evaluator;
                ShownEvaluator { name, parameters }
            },
            timeout: duration::format(head.limits.query_timeout),
            ttl: duration::format(head.limits.ttl),
        }),
        metadata,
        creation_timestamp: head.created_at.to_rfc3339(),
        status: status(head, transcript, verdict, min_score),
        token_usage: convert::usage(head.usage),
        warnings: all,
    }
}

/// What is judged: the reference to a query, or the texts of the request.
fn config(transcript: &Transcript, query_ref: Option<Value>) -> Value {
    if let Some(query_ref) = query_ref {
        return json!({"queryRef": query_ref});
    }
    let question = transcript.spec.messages.iter().find_map(|message| match message {
        Message::User(text) => JudgedTexts::read(text),
        _ => None,
    });
    let JudgedTexts { input, output } = question.unwrap_or_default();
    json!({"input": input, "output": output})
}

fn status(head: &Head, transcript: &Transcript, verdict: Option<Verdict>, min_score: Option<f64>) -> EvaluationStatus {
    let phase = convert::ark_phase(head.status());
    let (phase, message) = match (transcript.end.as_ref().map(|end| &end.how), &verdict) {
        (None, _) => (phase, format!("the evaluation is {}", head.status().as_str())),
        (Some(Ending::Completed), Some(verdict)) => (phase, verdict.reasoning.clone()),
        (Some(Ending::Completed), None) => ("error", "the judge's answer has no score".to_owned()),
        (Some(Ending::Failed { message, .. }), _) => (phase, message.clone()),
        (Some(Ending::Cancelled { .. }), _) => (phase, "the evaluation was cancelled".to_owned()),
    };
    EvaluationStatus {
        phase,
        message,
        score: verdict.as_ref().map(|verdict| verdict.score.to_string()),
        passed: verdict.zip(min_score).map(|(verdict, min_score)| verdict.score >= min_score),
        token_usage: convert::usage(head.usage),
        duration: convert::whole_duration(head, transcript),
    }
}

/// One page of a list. A query that only has the labels of an evaluation is not one.
pub(super) fn list(listed: &ListedQueries) -> List<Evaluation> {
    let queries = listed.queries.iter().filter(|(head, _)| head.edge_note == EDGE_NOTE);
    let items: Vec<_> =
        queries.filter_map(|(head, entries)| Some(evaluation(head, &beginning_and_end(entries)?, &[]))).collect();
    List {
        count: items.len(),
        items,
        total: listed.total,
        continue_token: listed.next.map(|uid| uid.to_string()),
        remaining_item_count: None,
    }
}
