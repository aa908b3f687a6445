/** n8n tools to ARK tools, and the merge of both lists. */
import { toParameters } from './schema';
import type { ArkToolSpec, LangChainTool, ToolSourceMode } from './types';

/** Converts an n8n LangChain tool to ARK's format, to be run by the client. */
export function convertN8nToolToArk(tool: LangChainTool): ArkToolSpec {
	const spec: ArkToolSpec = {
		type: 'custom',
		name: tool.name,
		description: tool.description,
		parameters: toParameters(tool.schema),
		executionMode: 'external',
	};
	const call = tool.call?.bind(tool) ?? tool.invoke?.bind(tool);
	// Not enumerable: neither JSON.stringify nor a copy by spread takes it along.
	Object.defineProperty(spec, '_n8nCallback', { value: call, enumerable: false });
	return spec;
}

/** Converts several tools. */
export function convertN8nToolsToArk(tools: LangChainTool[]): ArkToolSpec[] {
	return tools.map(convertN8nToolToArk);
}

/** Both lists as one; of two tools with the same name, ARK's wins. */
export function mergeArkAndN8nTools(arkTools: ArkToolSpec[], n8nTools: ArkToolSpec[]): ArkToolSpec[] {
	const byName = new Map<string, ArkToolSpec>();
	for (const tool of [...n8nTools, ...arkTools]) byName.set(tool.name, tool);
	return [...byName.values()];
}

/** The tools that a mode shows; an unknown mode means `ark`. */
export function filterToolsBySource(arkTools: ArkToolSpec[], n8nTools: ArkToolSpec[], mode: ToolSourceMode): ArkToolSpec[] {
	switch (mode) {
		case 'n8n':
			return n8nTools;
		case 'hybrid':
			return mergeArkAndN8nTools(arkTools, n8nTools);
		default:
			return arkTools;
	}
}
