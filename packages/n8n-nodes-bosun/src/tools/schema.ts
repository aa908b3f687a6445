/**
 * Zod 3, Zod 4 and JSON Schema to the JSON Schema of a tool's parameters.
 *
 * The converters are bundled into `dist`. Those of the host must not be used: n8n's `zod/v4` silently loses every
 * description of a newer Zod 4 schema, and its zod-to-json-schema turns one into an empty schema.
 */
import { toJSONSchema } from 'zod4/v4/core';
import { zodToJsonSchema } from 'zod-to-json-schema';

import type { ParameterSchema } from './types';

type Json = Record<string, unknown>;

/** Why a schema cannot be used; the caller adds the name of the tool. */
export class SchemaError extends Error {}

/** The parameters of a tool with this schema; without one, a tool takes nothing. */
export function toParameters(schema: unknown): ParameterSchema {
	if (schema === undefined || schema === null) return { type: 'object', properties: {} };
	const converted = isZod4(schema) ? fromZod4(schema) : isZod3(schema) ? fromZod3(schema) : fromJsonSchema(schema);
	return objectSchema(withRequiredInput(schema, withoutDialect(converted)));
}

/** Zod 3 marks a schema with the name of its type. */
export function isZod3(schema: unknown): boolean {
	return isObject(schema) && isObject(schema._def) && typeof schema._def.typeName === 'string';
}

/** Zod 4 keeps its internals in `_zod`. */
export function isZod4(schema: unknown): boolean {
	return isObject(schema) && isObject(schema._zod);
}

export function fromZod3(schema: unknown): Json {
	return zodToJsonSchema(schema as Parameters<typeof zodToJsonSchema>[0], {
		$refStrategy: 'none',
		// A Zod object strips what it does not know. That is no reason to forbid it.
		removeAdditionalStrategy: 'strict',
		allowedAdditionalProperties: undefined,
	}) as Json;
}

/**
 * Parameters are what goes into the tool. Where input and output are the same this equals Zod's default; where they
 * differ (defaults, transforms), only the input can be asked of a model.
 */
export function fromZod4(schema: unknown, io: 'input' | 'output' = 'input'): Json {
	return toJSONSchema(schema as Parameters<typeof toJSONSchema>[0], { io }) as Json;
}

function fromJsonSchema(schema: unknown): Json {
	if (!isObject(schema)) throw new SchemaError('its schema is neither Zod nor JSON Schema');
	return JSON.parse(JSON.stringify(schema)) as Json;
}

function withoutDialect(schema: Json): Json {
	const { ...rest } = schema;
	delete rest.$schema;
	return rest;
}

/**
 * Tools that take one text (Calculator, Think, Code without a schema) declare it as an optional `input` behind a
 * transform. Without the text they cannot work, and a model leaves out what is optional.
 */
function withRequiredInput(source: unknown, schema: Json): Json {
	const properties = isObject(schema.properties) ? Object.keys(schema.properties) : [];
	const takesOneText = isZod3(source) && zod3TypeName(source) === 'ZodEffects' && properties.length === 1 && properties[0] === 'input';
	return takesOneText ? { ...schema, required: ['input'] } : schema;
}

function zod3TypeName(schema: unknown): string {
	return (schema as { _def: { typeName: string } })._def.typeName;
}

/** A converter that does not understand a schema returns `{}` or worse, so its result is checked. */
function objectSchema(schema: Json): ParameterSchema {
	if (isObject(schema.default) && '_def' in schema.default) throw new SchemaError('its schema could not be converted');
	if (schema.type === undefined && Object.keys(schema).length > 0 && !isObject(schema.properties)) {
		throw new SchemaError(`its schema must describe an object, but has no type: ${excerpt(schema)}`);
	}
	if (schema.type !== undefined && schema.type !== 'object') {
		throw new SchemaError(`its schema must describe an object, not ${excerpt(schema.type)}`);
	}
	return { ...schema, type: 'object', properties: isObject(schema.properties) ? schema.properties : {} };
}

function excerpt(value: unknown): string {
	const text = JSON.stringify(value);
	return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}

export function isObject(value: unknown): value is Json {
	return typeof value === 'object' && value !== null && !Array.isArray(value);
}
