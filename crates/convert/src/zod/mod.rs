//! Zod schemas and LangChain tools in TypeScript or JavaScript source.
