//! The later passes of `z.toJSONSchema`: definitions, inheritance, and the document itself.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value as Json, json};

use super::{
    super::{
        fault::{ReadSchema, ZodProblem},
        library::WrittenCall,
        value::{MOST_NODES, SchemaId, array_index, too_large, weight},
    },
    Zod4,
    write::{SchemaBody, SchemaPart, SeenSchemas, Zod4Writer, text},
};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

pub(super) fn write(zod: &Zod4<'_>, root: SchemaId) -> ReadSchema<WrittenCall> {
    let mut writer = Zod4Writer::new(zod);
    let root = writer.schema(root)?;
    writer.extract(root)?;
    let ids: Vec<SchemaId> = writer.seen.keys().copied().collect();
    for id in ids.iter().rev() {
        writer.flatten(*id)?;
    }
    writer.fold_all()?;
    let schema = writer.assemble(root)?;
    Ok(WrittenCall { schema, remarks: writer.remarks })
}

/// Copies the keys of `source`, which replace those of the same name in place.
fn assign(target: &mut SchemaBody, source: &SchemaBody) {
    target.extend(source.iter().map(|(key, part)| (key.clone(), part.clone())));
}

impl Zod4Writer<'_, '_> {
    pub(super) fn body(&self, id: SchemaId) -> SchemaBody {
        self.seen.get(&id).map(|seen| seen.body.clone()).unwrap_or_default()
    }

    /// The content of a schema, wherever it is stored.
    fn content(&mut self, id: SchemaId) -> Option<&mut SchemaBody> {
        self.seen.get_mut(&id).map(|SeenSchemas { body, definition, .. }| definition.as_mut().unwrap_or(body))
    }

    /// Turns the root, named schemas and recursive ones into references.
    fn extract(&mut self, root: SchemaId) -> ReadSchema<()> {
        let mut names: HashMap<String, SchemaId> = HashMap::new();
        let mut anonymous = 0_usize;
        let ids: Vec<SchemaId> = self.seen.keys().copied().collect();
        for id in &ids {
            if let Some(name) =
                self.zod.meta(*id)?.get("id").cloned().flatten().and_then(|name| name.as_str().map(str::to_owned))
                && names.insert(name.clone(), *id).is_some()
            {
                let message = format!(
                    "Duplicate schema id \"{name}\" detected during JSON Schema conversion. Two different schemas cannot share the same id when converted together."
                );
                let offset = self.zod.node(*id)?.1.offset;
                return Err(ZodProblem::new(offset, "not_representable", message).into());
            }
        }
        let named: HashSet<SchemaId> = names.into_values().collect();
        for id in ids {
            let named = named.contains(&id);
            let Some(seen) = self.seen.get_mut(&id) else { continue };
            if !(id == root || named || seen.is_cycle) || seen.body.contains_key("$ref") {
                continue;
            }
            let own_id = match seen.body.get("id") {
                Some(SchemaPart::Json(Json::String(own))) if !own.is_empty() => Some(own.clone()),
                _ => None,
            };
            let reference = if id == root && own_id.is_none() {
                "#".to_owned()
            } else {
                let name = own_id.unwrap_or_else(|| {
                    anonymous += 1;
                    format!("__schema{}", anonymous - 1)
                });
                let pointer = name.replace('~', "~0").replace('/', "~1");
                seen.definition_id = Some(name);
                format!("#/$defs/{pointer}")
            };
            seen.definition = Some(std::mem::take(&mut seen.body));
            seen.body.insert("$ref".to_owned(), text(&reference));
        }
        Ok(())
    }

    /// Copies the content of the schema below into a schema.
    fn flatten(&mut self, id: SchemaId) -> ReadSchema<()> {
        let Some(seen) = self.seen.get_mut(&id) else { return Ok(()) };
        if std::mem::replace(&mut seen.flattened, true) {
            return Ok(());
        }
        let reference = seen.reference;
        let parent =
            self.zod.node(id)?.1.parent.map(|parent| self.zod.node(parent)).transpose()?.map(|(parent, _)| parent);
        if let Some(reference) = reference {
            self.flatten(reference)?;
            let below = self.body(reference);
            let definition = self.seen.get(&reference).and_then(|seen| seen.definition.clone());
            let is_parent = parent == Some(reference);
            if let Some(content) = self.content(id) {
                let own = content.clone();
                assign(content, &below);
                assign(content, &own);
                // A refined schema is written in full; its parent adds nothing but a `$ref`.
                if is_parent {
                    content.retain(|key, _| matches!(key.as_str(), "$ref" | "allOf") || own.contains_key(key));
                }
            }
            if let (true, Some(definition)) = (below.contains_key("$ref"), definition) {
                self.drop_repeated(id, &definition)?;
            }
        }
        if let Some(parent) = parent.filter(|parent| Some(*parent) != reference) {
            self.flatten(parent)?;
            let Some(seen) = self.seen.get(&parent) else { return Ok(()) };
            if let Some(pointer) = seen.body.get("$ref").cloned() {
                let definition = seen.definition.clone();
                if let Some(content) = self.content(id) {
                    content.insert("$ref".to_owned(), pointer);
                }
                if let Some(definition) = definition {
                    self.drop_repeated(id, &definition)?;
                }
            }
        }
        Ok(())
    }

    /// Next to a `$ref`, the content of the definition need not be repeated.
    fn drop_repeated(&mut self, id: SchemaId, definition: &SchemaBody) -> ReadSchema<()> {
        let content = self.content(id).cloned().unwrap_or_default();
        for (key, part) in &content {
            if matches!(key.as_str(), "$ref" | "allOf") {
                continue;
            }
            if let Some(known) = definition.get(key)
                && self.render(part)? == self.render(known)?
                && let Some(content) = self.content(id)
            {
                content.shift_remove(key);
            }
        }
        Ok(())
    }

    fn assemble(&self, root: SchemaId) -> ReadSchema<Json> {
        let Some(seen) = self.seen.get(&root) else { return Ok(json!({})) };
        let top =
            if seen.definition_id.is_some() { &seen.body } else { seen.definition.as_ref().unwrap_or(&seen.body) };
        let mut nodes = MOST_NODES;
        let mut document = Map::new();
        document.insert("$schema".to_owned(), json!(DIALECT));
        for (key, value) in self.render_body(top, &mut nodes, 0)? {
            document.insert(key, value);
        }
        // The `id` of `.meta()` names a definition; it is not a keyword.
        let name = self.zod.meta(root)?.get("id").cloned().flatten();
        if name.is_some() && document.get("id") == name.as_ref() {
            document.shift_remove("id");
        }
        let mut definitions = Map::new();
        for seen in self.seen.values() {
            if let (Some(definition), Some(name)) = (&seen.definition, &seen.definition_id) {
                let mut definition = self.render_body(definition, &mut nodes, 0)?;
                if definition.get("id") == Some(&json!(name)) {
                    definition.shift_remove("id");
                }
                definitions.insert(name.clone(), Json::Object(definition));
            }
        }
        if !definitions.is_empty() {
            document.insert("$defs".to_owned(), Json::Object(definitions));
        }
        Ok(Json::Object(document))
    }

    pub(super) fn render(&self, part: &SchemaPart) -> ReadSchema<Option<Json>> {
        let mut nodes = MOST_NODES;
        self.render_part(part, &mut nodes, 0)
    }

    fn render_part(&self, part: &SchemaPart, nodes: &mut usize, depth: usize) -> ReadSchema<Option<Json>> {
        const DEEPEST: usize = 1_000;
        let weight = if let SchemaPart::Json(json) = part { weight(json) } else { 1 };
        *nodes = nodes.checked_sub(weight).filter(|_| depth < DEEPEST).ok_or_else(|| too_large(0))?;
        Ok(match part {
            SchemaPart::Undefined => None,
            SchemaPart::Json(json) => Some(json.clone()),
            SchemaPart::Schema(id) => match self.seen.get(id) {
                Some(seen) => Some(Json::Object(self.render_body(&seen.body, nodes, depth + 1)?)),
                None => None,
            },
            SchemaPart::List(parts) => {
                let items =
                    parts.iter().map(|part| Ok(self.render_part(part, nodes, depth + 1)?.unwrap_or(Json::Null)));
                Some(Json::Array(items.collect::<ReadSchema<_>>()?))
            }
            SchemaPart::Object(body) => Some(Json::Object(self.render_body(body, nodes, depth + 1)?)),
        })
    }

    fn render_body(&self, body: &SchemaBody, nodes: &mut usize, depth: usize) -> ReadSchema<Map<String, Json>> {
        let mut object = Map::new();
        let index = |key: &str| array_index(key).map_or(u64::MAX, u64::from);
        let mut keys: Vec<&String> = body.keys().collect();
        keys.sort_by_key(|key| index(key));
        for key in keys {
            if let Some(part) = body.get(key)
                && let Some(value) = self.render_part(part, nodes, depth)?
            {
                object.insert(key.clone(), value);
            }
        }
        Ok(object)
    }
}
