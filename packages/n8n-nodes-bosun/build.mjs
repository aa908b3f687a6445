// Bundles each node and credential into one file, so that the package has no dependency at run time, and adds what
// n8n reads beside the code: icons and codex files.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { build } from 'esbuild';

const { n8n } = JSON.parse(readFileSync('package.json', 'utf8'));
const sources = [...n8n.nodes, ...n8n.credentials].map((file) => file.replace(/^dist\/(.*)\.js$/, '$1.ts'));

rmSync('dist', { recursive: true, force: true });
await build({
	entryPoints: [...sources, 'index.ts'],
	outdir: 'dist',
	outbase: '.',
	bundle: true,
	platform: 'node',
	target: 'node20',
	format: 'cjs',
	// The host provides it, and its errors must be the host's own classes.
	external: ['n8n-workflow'],
	legalComments: 'none',
});
execFileSync('tsc', ['--emitDeclarationOnly', '--outDir', 'dist', '--rootDir', '.', 'index.ts', '--skipLibCheck', '--declaration', '--target', 'es2022', '--moduleResolution', 'node10', '--module', 'commonjs', '--esModuleInterop', '--types', 'node'], { stdio: 'inherit' });
mkdirSync('dist/icons', { recursive: true });
cpSync('icons', 'dist/icons', { recursive: true });
for (const source of sources) {
	const codex = source.replace(/\.ts$/, '.json');
	try {
		cpSync(codex, `dist/${codex}`);
	} catch (error) {
		if (error.code !== 'ENOENT') throw error;
	}
}
