//! The passes that simplify a JSON Schema of Zod 4: unions of bare types become a list of types, numeric keys of
//! records become patterns, and an intersection of objects becomes one object.

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
};

use indexmap::IndexSet;
use serde_json::{Value as Json, json};

use super::{
    super::{fault::ReadSchema, value::SchemaId},
    regexes,
    write::{SchemaBody, SchemaPart, SeenSchemas, Zod4Writer, text},
};

const FOLDABLE: [&str; 4] = ["type", "properties", "required", "additionalProperties"];

/// One of the two places where a schema's keywords may be stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum FoldPlace {
    Body,
    Definition,
}

impl Zod4Writer<'_, '_> {
    pub(super) fn fold_all(&mut self) -> ReadSchema<()> {
        let ids: Vec<SchemaId> = self.seen.keys().copied().collect();
        let mut done = HashSet::new();
        for id in &ids {
            let place = match self.seen.get(id) {
                Some(SeenSchemas { definition: Some(_), .. }) => FoldPlace::Definition,
                _ => FoldPlace::Body,
            };
            self.compact(*id, place, &mut done);
        }
        self.rewrite_keys();
        // A schema that inherits from an intersection holds the same list, and is folded with it.
        let mut holders: HashMap<*const Vec<SchemaPart>, Vec<(SchemaId, FoldPlace)>> = HashMap::new();
        for id in &ids {
            for place in [FoldPlace::Body, FoldPlace::Definition] {
                if let Some(SchemaPart::List(list)) = self.at(*id, place).and_then(|body| body.get("allOf")) {
                    holders.entry(Rc::as_ptr(list)).or_default().push((*id, place));
                }
            }
        }
        for all_of in self.intersections.clone() {
            for (id, place) in holders.get(&Rc::as_ptr(&all_of)).into_iter().flatten() {
                self.fold_intersection(*id, *place)?;
            }
        }
        Ok(())
    }

    fn at(&self, id: SchemaId, place: FoldPlace) -> Option<&SchemaBody> {
        let seen = self.seen.get(&id)?;
        match place {
            FoldPlace::Body => Some(&seen.body),
            FoldPlace::Definition => seen.definition.as_ref(),
        }
    }

    fn at_mut(&mut self, id: SchemaId, place: FoldPlace) -> Option<&mut SchemaBody> {
        let seen = self.seen.get_mut(&id)?;
        match place {
            FoldPlace::Body => Some(&mut seen.body),
            FoldPlace::Definition => seen.definition.as_mut(),
        }
    }

    /// `anyOf: [{type: "a"}, {type: "b"}]` is equivalent to `type: ["a", "b"]`.
    fn compact(&mut self, id: SchemaId, place: FoldPlace, done: &mut HashSet<(SchemaId, FoldPlace)>) {
        if !done.insert((id, place)) {
            return;
        }
        let Some(body) = self.at(id, place) else { return };
        let Some(SchemaPart::List(options)) = body.get("anyOf") else { return };
        if options.is_empty() || body.get("type").is_some_and(|part| !matches!(part, SchemaPart::Undefined)) {
            return;
        }
        let options = Rc::clone(options);
        let mut types: Vec<Json> = Vec::new();
        for option in options.iter() {
            let found = match option {
                SchemaPart::Schema(option) => {
                    self.compact(*option, FoldPlace::Body, done);
                    self.at(*option, FoldPlace::Body).and_then(only_type)
                }
                SchemaPart::Object(body) => only_type(body),
                SchemaPart::Json(Json::Object(object)) if object.len() == 1 => object.get("type").cloned(),
                _ => None,
            };
            let more = match found {
                Some(Json::Array(more)) => more,
                Some(one @ Json::String(_)) => vec![one],
                _ => return,
            };
            for one in more {
                if !types.contains(&one) {
                    types.push(one);
                }
            }
        }
        let kind = if let [one] = types.as_slice() { one.clone() } else { Json::Array(types) };
        if let Some(body) = self.at_mut(id, place) {
            body.shift_remove("anyOf");
            body.insert("type".to_owned(), SchemaPart::Json(kind));
        }
    }

    /// The keys of a JSON object are strings, so a record with numeric keys gets their pattern.
    fn rewrite_keys(&mut self) {
        let mut rewritten: HashMap<SchemaId, SchemaPart> = HashMap::new();
        for record in &self.records {
            let body = self.seen.get(record).map(|seen| seen.definition.as_ref().unwrap_or(&seen.body));
            if let Some(SchemaPart::Schema(names)) = body.and_then(|body| body.get("propertyNames"))
                && !rewritten.contains_key(names)
                && let Some(names_as_text) = self.as_key_names(&SchemaPart::Schema(*names), &mut Vec::new())
            {
                rewritten.insert(*names, names_as_text);
            }
        }
        for seen in self.seen.values_mut() {
            for body in [Some(&mut seen.body), seen.definition.as_mut()].into_iter().flatten() {
                if let Some(part) = body.get_mut("propertyNames")
                    && let SchemaPart::Schema(names) = part
                    && let Some(replacement) = rewritten.get(names)
                {
                    *part = replacement.clone();
                }
            }
        }
    }

    /// The same schema for keys, or `None` if it can stay as it is.
    fn as_key_names(&self, part: &SchemaPart, visited: &mut Vec<SchemaId>) -> Option<SchemaPart> {
        let mut body = match part {
            SchemaPart::Schema(id) => {
                let seen = self.seen.get(id)?;
                if seen.body.contains_key("$ref") {
                    if visited.contains(id) {
                        return None;
                    }
                    visited.push(*id);
                    seen.definition.clone()?
                } else {
                    seen.body.clone()
                }
            }
            SchemaPart::Object(body) => body.as_ref().clone(),
            SchemaPart::Json(Json::Object(object)) => {
                object.iter().map(|(key, value)| (key.clone(), SchemaPart::Json(value.clone()))).collect()
            }
            _ => return None,
        };
        let mut changed = false;
        for keyword in ["anyOf", "oneOf"] {
            if let Some(SchemaPart::List(branches)) = body.get(keyword) {
                let mapped: Vec<Option<SchemaPart>> =
                    branches.iter().map(|branch| self.as_key_names(branch, visited)).collect();
                if mapped.iter().any(Option::is_some) {
                    let branches = branches
                        .iter()
                        .zip(mapped)
                        .map(|(branch, mapped)| mapped.unwrap_or_else(|| branch.clone()))
                        .collect();
                    body.insert(keyword.to_owned(), SchemaPart::List(Rc::new(branches)));
                    changed = true;
                }
            }
        }
        let types: Vec<Json> = match body.get("type") {
            Some(SchemaPart::Json(Json::Array(types))) => types.clone(),
            Some(SchemaPart::Json(one)) => vec![one.clone()],
            _ => Vec::new(),
        };
        let has = |name: &str| types.contains(&json!(name));
        let is_number = !has("string") && (has("number") || has("integer"));
        let values: Option<Vec<Json>> = match (body.get("enum"), body.get("const")) {
            (Some(SchemaPart::Json(Json::Array(values))), _) => Some(values.clone()),
            (None, Some(SchemaPart::Json(value))) => Some(vec![value.clone()]),
            _ => None,
        };
        if !is_number && !values.as_ref().is_some_and(|values| values.iter().any(Json::is_number)) {
            return changed.then(|| SchemaPart::Object(Rc::new(body)));
        }
        for keyword in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format", "id"] {
            body.shift_remove(keyword);
        }
        let as_text = |value: &Json| match value {
            Json::Number(number) => json!(super::super::value::number_text(number.as_f64().unwrap_or(f64::NAN))),
            other => other.clone(),
        };
        if let Some(SchemaPart::Json(Json::Array(values))) = body.get_mut("enum") {
            *values = values.iter().map(as_text).collect();
        } else if let Some(SchemaPart::Json(value)) = body.get_mut("const") {
            *value = as_text(value);
        }
        if is_number {
            body.insert("type".to_owned(), text("string"));
            if values.is_none() {
                let pattern = if has("number") { regexes::NUMBER } else { regexes::INTEGER };
                body.insert("pattern".to_owned(), text(pattern));
            }
        }
        Some(SchemaPart::Object(Rc::new(body)))
    }

    /// Members of an `allOf` that forbid each other's keys would together allow nothing, so objects are merged into
    /// one, and distributed over one union if there is one.
    fn fold_intersection(&mut self, id: SchemaId, place: FoldPlace) -> ReadSchema<()> {
        let Some(body) = self.at(id, place) else { return Ok(()) };
        let Some(SchemaPart::List(all_of)) = body.get("allOf") else { return Ok(()) };
        if all_of.len() < 2 || FOLDABLE.iter().any(|key| body.contains_key(*key)) {
            return Ok(());
        }
        let members: Vec<(SchemaPart, Option<SchemaBody>)> =
            all_of.iter().map(|part| (part.clone(), self.resolve(part))).collect();
        let union = members.iter().position(|(_, body)| body.as_ref().is_some_and(|body| union_of(body).is_some()));
        let folded = match union {
            None => {
                let all: Option<Vec<SchemaBody>> = members.into_iter().map(|(_, body)| body).collect();
                match all {
                    Some(all) => self.fold_objects(&all)?,
                    None => None,
                }
            }
            Some(at) => {
                let Some((keyword, branches)) = members
                    .get(at)
                    .and_then(|(_, body)| body.as_ref())
                    .and_then(|body| (body.len() == 1).then(|| union_of(body)).flatten())
                else {
                    return Ok(());
                };
                let rest: Option<Vec<SchemaBody>> = members
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| *index != at)
                    .map(|(_, (_, body))| body.clone())
                    .collect();
                let Some(rest) = rest else { return Ok(()) };
                let mut folded = Vec::new();
                for branch in branches.iter() {
                    let Some(branch) = self.resolve(branch) else { return Ok(()) };
                    let objects: Vec<SchemaBody> = rest.iter().cloned().chain([branch]).collect();
                    match self.fold_objects(&objects)? {
                        Some(object) => folded.push(SchemaPart::Object(Rc::new(object))),
                        None => return Ok(()),
                    }
                }
                Some(SchemaBody::from_iter([(keyword.to_owned(), SchemaPart::List(Rc::new(folded)))]))
            }
        };
        if let (Some(folded), Some(body)) = (folded, self.at_mut(id, place)) {
            body.shift_remove("allOf");
            body.extend(folded);
        }
        Ok(())
    }

    fn resolve(&self, part: &SchemaPart) -> Option<SchemaBody> {
        match part {
            SchemaPart::Schema(id) => self.seen.get(id).map(|seen| seen.body.clone()),
            SchemaPart::Object(body) => Some(body.as_ref().clone()),
            SchemaPart::Json(Json::Object(object)) => {
                Some(object.iter().map(|(key, value)| (key.clone(), SchemaPart::Json(value.clone()))).collect())
            }
            _ => None,
        }
    }

    fn fold_objects(&self, objects: &[SchemaBody]) -> ReadSchema<Option<SchemaBody>> {
        let foldable = |body: &SchemaBody| {
            matches!(body.get("type"), Some(SchemaPart::Json(Json::String(name))) if name == "object")
                && body.keys().all(|key| FOLDABLE.contains(&key.as_str()))
        };
        if !objects.iter().all(foldable) {
            return Ok(None);
        }
        let mut properties = SchemaBody::new();
        let mut required: IndexSet<String> = IndexSet::new();
        for object in objects {
            for key in property_keys(object) {
                if properties.contains_key(&key) {
                    continue;
                }
                let parts = self.distinct(
                    objects.iter().filter_map(|other| property(other, &key).or_else(|| self.undeclared(other))),
                )?;
                let merged = match parts.as_slice() {
                    [one] => one.clone(),
                    _ => {
                        let bodies: Option<Vec<SchemaBody>> = parts.iter().map(|part| self.resolve(part)).collect();
                        match bodies.map(|bodies| self.fold_objects(&bodies)).transpose()?.flatten() {
                            Some(folded) => SchemaPart::Object(Rc::new(folded)),
                            None => SchemaPart::Object(Rc::new(SchemaBody::from_iter([(
                                "allOf".to_owned(),
                                SchemaPart::List(Rc::new(parts)),
                            )]))),
                        }
                    }
                };
                properties.insert(key, merged);
            }
            if let Some(SchemaPart::Json(Json::Array(names))) = object.get("required") {
                required.extend(names.iter().filter_map(Json::as_str).map(str::to_owned));
            }
        }
        let mut folded = SchemaBody::from_iter([
            ("type".to_owned(), text("object")),
            ("properties".to_owned(), SchemaPart::Object(Rc::new(properties))),
        ]);
        if !required.is_empty() {
            folded.insert("required".to_owned(), SchemaPart::Json(required.into_iter().collect()));
        }
        if objects
            .iter()
            .all(|object| matches!(object.get("additionalProperties"), Some(SchemaPart::Json(Json::Bool(false)))))
        {
            folded.insert("additionalProperties".to_owned(), SchemaPart::Json(json!(false)));
        } else {
            let constraints = self.distinct(objects.iter().filter_map(|object| self.undeclared(object)))?;
            match constraints.as_slice() {
                [] => {}
                [one] => {
                    folded.insert("additionalProperties".to_owned(), one.clone());
                }
                _ => {
                    let all = SchemaBody::from_iter([("allOf".to_owned(), SchemaPart::List(Rc::new(constraints)))]);
                    folded.insert("additionalProperties".to_owned(), SchemaPart::Object(Rc::new(all)));
                }
            }
        }
        Ok(Some(folded))
    }

    /// The constraint of an object on a key that it does not declare: only a `catchall` has one.
    fn undeclared(&self, object: &SchemaBody) -> Option<SchemaPart> {
        let extra = object.get("additionalProperties")?;
        self.resolve(extra).filter(|body| !body.is_empty()).map(|_| extra.clone())
    }

    fn distinct(&self, parts: impl Iterator<Item = SchemaPart>) -> ReadSchema<Vec<SchemaPart>> {
        let mut distinct: Vec<(SchemaPart, Option<Json>)> = Vec::new();
        for part in parts {
            let written = self.render(&part)?;
            if !distinct.iter().any(|(_, other)| *other == written) {
                distinct.push((part, written));
            }
        }
        Ok(distinct.into_iter().map(|(part, _)| part).collect())
    }
}

fn only_type(body: &SchemaBody) -> Option<Json> {
    match body.get("type") {
        Some(SchemaPart::Json(kind)) if body.len() == 1 => Some(kind.clone()),
        _ => None,
    }
}

fn union_of(body: &SchemaBody) -> Option<(&'static str, Rc<Vec<SchemaPart>>)> {
    ["oneOf", "anyOf"].into_iter().find_map(|keyword| match body.get(keyword) {
        Some(SchemaPart::List(branches)) => Some((keyword, Rc::clone(branches))),
        _ => None,
    })
}

fn property_keys(object: &SchemaBody) -> Vec<String> {
    match object.get("properties") {
        Some(SchemaPart::Object(properties)) => properties.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

fn property(object: &SchemaBody, key: &str) -> Option<SchemaPart> {
    match object.get("properties") {
        Some(SchemaPart::Object(properties)) => properties.get(key).cloned(),
        _ => None,
    }
}
