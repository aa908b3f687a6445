/** What other programs may use of the package: the conversion of n8n tools to ARK tools. */
export { convertN8nToolsToArk, convertN8nToolToArk, filterToolsBySource, mergeArkAndN8nTools } from './src/tools/toolConverter';
export type { ArkToolSpec, LangChainTool, ToolSourceMode } from './src/tools/types';
